// all_reduce, all_gather and reduce_scatter round rings: two passes, or one of them (ring.hpp).
#include "sim/collectives/algorithms/ring.hpp"

namespace trainyard {

namespace {

class RingCollective final : public CollectiveAlgorithm {
 public:
  explicit RingCollective(CollectiveOp op)
      : op_(op),
        passes_{.reduce_scatter = op != CollectiveOp::AllGather,
                .all_gather = op != CollectiveOp::ReduceScatter} {}
  std::string_view name() const override { return "ring"; }
  CollectiveOp op() const override { return op_; }
  bool is_plain() const override { return true; }
  std::string_view summary() const override {
    if (op_ == CollectiveOp::AllGather) return "every member's part goes round a ring";
    if (op_ == CollectiveOp::ReduceScatter) return "sums go round a ring and end at their owners";
    return "reduces and gathers in two passes around rings; least bytes per link";
  }
  std::uint32_t pieces(const GroupPlace& place) const override { return ring_pieces(place); }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  FluidBound fluid_bound(const GroupPlace& place) const override { return ring_bound(place); }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return ring_phases(place, bytes, passes_);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return ring_messages(place, bytes, passes_);
  }
  TurnedMessages turned_messages(const GroupPlace& place, Bytes bytes) const override {
    return turned_ring_messages(place, bytes, passes_);
  }

 private:
  CollectiveOp op_;
  RingPasses passes_;
};

}  // namespace

const CollectiveAlgorithm& ring_all_reduce() {
  static const RingCollective algorithm(CollectiveOp::AllReduce);
  return algorithm;
}

const CollectiveAlgorithm& ring_all_gather() {
  static const RingCollective algorithm(CollectiveOp::AllGather);
  return algorithm;
}

const CollectiveAlgorithm& ring_reduce_scatter() {
  static const RingCollective algorithm(CollectiveOp::ReduceScatter);
  return algorithm;
}

}  // namespace trainyard
