#include "models/collectives/ring.hpp"

namespace trainyard {

namespace {

constexpr RingPasses kPasses{.reduce_scatter = true, .all_gather = true};

class RingAllReduce final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "ring"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "reduces and gathers in two passes around rings; least bytes per link";
  }
  std::uint32_t pieces(const GroupPlace& place) const override { return ring_pieces(place); }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return ring_phases(place, bytes, kPasses);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return ring_messages(place, bytes, kPasses);
  }
};

}  // namespace

const CollectiveAlgorithm& ring_all_reduce() {
  static const RingAllReduce algorithm;
  return algorithm;
}

}  // namespace trainyard
