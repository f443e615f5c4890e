// all_to_all at once, as NCCL groups its sends: the messages of a sender share its port. Between
// nodes each leaves through the NIC of the local GPU that has the receiver's index (NCCL's PXN), so
// that the fabric is crossed on one rail.
//
//   T = alpha + (n-1)/n S/B, S all that one rank sends, its own block included
//
// Uneven blocks: each sender is one flow over all its links, so T is at least alpha + the largest
// sum of what one port sends or receives / B.
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 400.240960 us
// (tests/models/collectives/exchange_test.cpp).
#include "models/collectives/all_to_all.hpp"

namespace trainyard {

namespace {

class DirectAllToAll final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "direct"; }
  CollectiveOp op() const override { return CollectiveOp::AllToAll; }
  std::string_view summary() const override { return "all messages at once, one flow per sender"; }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return ranks_of(place) * ranks_of(place);
  }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_of_all_to_all(place, messages(place, bytes), ChainOf::Sender);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::vector<Message> DirectAllToAll::messages(const GroupPlace& place, Bytes bytes) const {
  const std::uint32_t n = ranks_of(place);
  AllToAllRounds rounds(place, bytes);
  for (std::uint32_t distance = 1; distance < n; ++distance)
    for (std::uint32_t from = 0; from < n; ++from)
      rounds.add({.from = from, .to = (from + distance) % n, .step = 0, .channel = distance - 1});
  return std::move(rounds).take();
}

}  // namespace

const CollectiveAlgorithm& direct_all_to_all() {
  static const DirectAllToAll algorithm;
  return algorithm;
}

}  // namespace trainyard
