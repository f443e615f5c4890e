// all_reduce in rings, half of the buffer each way round: for wires that join neighbours, which a
// ring one way leaves half idle.
//
//   T = 2(n-1)(alpha + S/(2nB))         B of one wire, each way its own
//   T = 2(n-1)(alpha + S/(nB))          B of a port, which both ways share: the ring's time
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 465.240960 us on a ring of wires, 18 860.481920 us
// on a switch (tests/sim/collectives/new_algorithms_test.cpp).
#include <algorithm>

#include "sim/collectives/algorithms/ring.hpp"

namespace trainyard {

namespace {

constexpr RingPasses kPasses{.reduce_scatter = true, .all_gather = true};

// Every ring of the group, and its reverse.
std::vector<Ring> both_ways(const GroupPlace& place) {
  std::vector<Ring> rings;
  for (Ring& ring : rings_of(place)) {
    rings.emplace_back(ring.rbegin(), ring.rend());
    rings.push_back(std::move(ring));
  }
  return rings;
}

class BidirectionalRing final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "bidirectional_ring"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "rings with half of the buffer each way round";
  }
  std::uint32_t pieces(const GroupPlace& place) const override { return 2 * ring_pieces(place); }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  FluidBound fluid_bound(const GroupPlace& place) const override {
    FluidBound bound = ring_bound(place);
    if (even_hops(place, rings_of(place))) return bound;
    constexpr double kMissed = 0.2;
    bound.relative += kMissed;
    bound.reason =
        "where hops differ in latency the two ways' messages miss each other on a shared port and "
        "each has it whole for a time";
    return bound;
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_on(place, both_ways(place), bytes, kPasses);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return messages_on(both_ways(place), bytes, kPasses);
  }
};

}  // namespace

const CollectiveAlgorithm& bidirectional_ring_all_reduce() {
  static const BidirectionalRing algorithm;
  return algorithm;
}

}  // namespace trainyard
