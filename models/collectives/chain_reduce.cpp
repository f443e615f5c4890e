#include "models/collectives/chain.hpp"
#include "models/collectives/loads.hpp"

namespace trainyard {

namespace {

class ChainReduce final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "chain"; }
  CollectiveOp op() const override { return CollectiveOp::Reduce; }
  std::string_view summary() const override {
    return "chunks towards the root along rings, added up on the way";
  }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return chain_pieces(place, chain_plan(place, Bytes{0.0}, true));
  }
  std::optional<std::string> refusal(const GroupPlace& /*place*/) const override { return {}; }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Message);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return chain_messages(place, bytes, chain_plan(place, bytes, true));
  }
};

}  // namespace

const CollectiveAlgorithm& chain_reduce() {
  static const ChainReduce algorithm;
  return algorithm;
}

}  // namespace trainyard
