// all_to_all of equal blocks in rounds: in round k every rank sends a block to the rank k further
// on.
//
//   T = (n-1)(alpha + S/(nB)), S all that one rank sends, its own block included
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 430.240960 us
// (tests/models/collectives/exchange_test.cpp).
#include "models/collectives/exchange.hpp"

namespace trainyard {

namespace {

class PairwiseAllToAll final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "pairwise"; }
  CollectiveOp op() const override { return CollectiveOp::AllToAll; }
  std::string_view summary() const override { return "one partner per round, n-1 rounds"; }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return ranks_of(place) * ranks_of(place);
  }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::vector<Message> PairwiseAllToAll::messages(const GroupPlace& place, Bytes bytes) const {
  // Nothing is carried on, so no MessageList with its n^3 pieces is needed.
  const std::uint32_t n = ranks_of(place);
  std::vector<Message> messages;
  messages.reserve(std::size_t{n} * (n - 1));
  for (std::uint32_t distance = 1; distance < n; ++distance) {
    for (std::uint32_t from = 0; from < n; ++from) {
      const std::uint32_t to = (from + distance) % n;
      messages.push_back({.from = from,
                          .to = to,
                          .bytes = bytes.value() / n,
                          .step = distance - 1,
                          .channel = 0,
                          .piece_begin = from * n + to,
                          .piece_end = from * n + to + 1,
                          .after = {}});
    }
  }
  return messages;
}

}  // namespace

const CollectiveAlgorithm& pairwise_all_to_all() {
  static const PairwiseAllToAll algorithm;
  return algorithm;
}

}  // namespace trainyard
