// all_to_all in rounds: in round k every rank sends a block to the rank k further on.
//
//   T = (n-1)(alpha + S/(nB)), S all that one rank sends, its own block included
//
// Uneven blocks: a round ends with its largest one, so T = sum over rounds of (alpha + largest/B).
// Message by message no round waits for the one before, so that is an upper bound of the stepwise
// time, and what the busiest member sends or receives a lower one.
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 430.240960 us
// (tests/models/collectives/exchange_test.cpp).
#include "models/collectives/all_to_all.hpp"

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
    return phases_of_all_to_all(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::vector<Message> PairwiseAllToAll::messages(const GroupPlace& place, Bytes bytes) const {
  const std::uint32_t n = ranks_of(place);
  AllToAllRounds rounds(place, bytes);
  for (std::uint32_t distance = 1; distance < n; ++distance)
    for (std::uint32_t from = 0; from < n; ++from)
      rounds.add({.from = from, .to = (from + distance) % n, .step = distance - 1, .channel = 0});
  return std::move(rounds).take();
}

}  // namespace

const CollectiveAlgorithm& pairwise_all_to_all() {
  static const PairwiseAllToAll algorithm;
  return algorithm;
}

}  // namespace trainyard
