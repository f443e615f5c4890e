// broadcast and reduce by pipelined chains (chain.hpp).
#include "sim/collectives/algorithms/chain.hpp"

namespace trainyard {

namespace {

class ChainCollective final : public CollectiveAlgorithm {
 public:
  explicit ChainCollective(bool reduces) : reduces_(reduces) {}
  std::string_view name() const override { return "chain"; }
  CollectiveOp op() const override {
    return reduces_ ? CollectiveOp::Reduce : CollectiveOp::Broadcast;
  }
  std::string_view summary() const override {
    return reduces_ ? "chunks towards the root along rings, added up on the way"
                    : "chunks from the root along rings, pipelined";
  }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return chain_pieces(place, chain_plan(place, Bytes{0.0}, reduces_));
  }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return chain_refusal(place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return chain_phases(place, bytes, chain_plan(place, bytes, reduces_));
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return chain_messages(place, bytes, chain_plan(place, bytes, reduces_));
  }

 private:
  bool reduces_;
};

}  // namespace

const CollectiveAlgorithm& chain_broadcast() {
  static const ChainCollective algorithm(false);
  return algorithm;
}

const CollectiveAlgorithm& chain_reduce() {
  static const ChainCollective algorithm(true);
  return algorithm;
}

}  // namespace trainyard
