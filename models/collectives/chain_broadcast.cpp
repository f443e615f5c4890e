#include "models/collectives/chain.hpp"
#include "models/collectives/loads.hpp"

namespace trainyard {

namespace {

class ChainBroadcast final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "chain"; }
  CollectiveOp op() const override { return CollectiveOp::Broadcast; }
  std::string_view summary() const override {
    return "chunks from the root along rings, pipelined";
  }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return chain_pieces(place, chain_plan(place, Bytes{0.0}, false));
  }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return chain_messages(place, bytes, chain_plan(place, bytes, false));
  }
};

}  // namespace

const CollectiveAlgorithm& chain_broadcast() {
  static const ChainBroadcast algorithm;
  return algorithm;
}

}  // namespace trainyard
