#include <fmt/format.h>

#include <algorithm>

#include "sim/collectives/algorithms/sharp.hpp"
#include "sim/collectives/algorithms/sharp_plan.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/relay.hpp"
#include "sim/collectives/switch_routes.hpp"

namespace trainyard {

namespace {

class SharpCollective final : public CollectiveAlgorithm {
 public:
  SharpCollective(CollectiveOp op, InNode in_node) : op_(op), in_node_(in_node) {}
  std::string_view name() const override {
    return in_node_ == InNode::Direct ? "sharp" : "nvls_sharp";
  }
  CollectiveOp op() const override { return op_; }
  std::string_view summary() const override;
  std::uint32_t pieces(const GroupPlace& place) const override {
    if (op_ != CollectiveOp::AllReduce) return static_cast<std::uint32_t>(place.gpus.size());
    const SharpPlan plan = sharp_plan(place, in_node_);
    return sharp_chunks_most(plan, in_node_) * static_cast<std::uint32_t>(plan.heads.size());
  }
  bool streams() const override { return in_node_ == InNode::NvSwitch; }
  FluidBound fluid_bound(const GroupPlace& place) const override {
    if (in_node_ == InNode::Direct) return {};
    const bool free = place.cluster.facts().latency.intra_step.value() <= 0.0;
    const double chunks = free ? 1.0 : sharp_chunks_most(sharp_plan(place, in_node_), in_node_);
    return {.relative = std::max(0.15, 2.0 / chunks),
            .reason =
                "the fluid form is one full pipeline; chunks go up, across and down one after the "
                "other, and those behind the first run ahead while it pays its latencies"};
  }
  std::vector<DeviceId> parties(const GroupPlace& place) const override {
    return sharp_plan(place, in_node_).parties;
  }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return sharp_refusal(place, in_node_);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override;
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return sharp_messages(sharp_plan(place, in_node_),
                          {.op = op_, .in_node = in_node_, .bytes = bytes});
  }

 private:
  CollectiveOp op_;
  InNode in_node_;
};

std::string_view SharpCollective::summary() const {
  if (in_node_ == InNode::NvSwitch)
    return "the fabric's switches add, NVSwitch adds and copies in the node";
  if (op_ == CollectiveOp::AllGather)
    return "the fabric's switches copy to all nodes, then a direct exchange in the node";
  if (op_ == CollectiveOp::ReduceScatter)
    return "the fabric's switches add what each node needs, after a direct exchange in the node";
  return "the fabric's switches add, after a direct exchange in the node";
}

// By piece, the head that answers for it: of an all_reduce each has as many in a row.
std::vector<std::uint32_t> heads_of_pieces(const SharpPlan& plan, CollectiveOp op,
                                           std::uint32_t pieces) {
  std::vector<std::uint32_t> heads(pieces);
  const auto parts = static_cast<std::uint32_t>(plan.heads.size());
  for (std::uint32_t piece = 0; piece < pieces; ++piece) heads[piece] = piece / (pieces / parts);
  if (op == CollectiveOp::AllReduce) return heads;
  for (const std::vector<std::uint32_t>& roles : plan.placement.nodes)
    for (std::size_t at = 0; at < roles.size(); ++at) heads[roles[at]] = plan.head_of[at];
  return heads;
}

// All messages in which switches take part are on the wires at once: a chain for each head, whose
// messages meet in the switches of its tree.
Phase switched_phase(const GroupPlace& place, const SharpPlan& plan,
                     const std::vector<std::uint32_t>& head_of_piece,
                     std::span<const Message> messages) {
  Phase phase;
  std::vector<std::vector<std::uint32_t>> of_head(plan.heads.size());
  for (std::uint32_t index = 0; index < messages.size(); ++index)
    of_head[head_of_piece[messages[index].piece(0)]].push_back(index);
  for (const std::vector<std::uint32_t>& chosen : of_head)
    if (Chain chain = chain_of(place, plan.parties, messages, chosen); !chain.loads.empty())
      phase.chains.push_back(std::move(chain));
  return phase;
}

std::vector<Phase> SharpCollective::phases(const GroupPlace& place, Bytes bytes) const {
  const SharpPlan plan = sharp_plan(place, in_node_);
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  const std::vector<Message> messages =
      sharp_messages(plan, {.op = op_, .in_node = in_node_, .bytes = bytes, .whole = true});
  const auto is_switched = [&](const Message& message) {
    return message.from >= ranks || message.to >= ranks;
  };
  const auto first = std::find_if(messages.begin(), messages.end(), is_switched);
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_switched).base();
  const CollectiveLatency& latency = place.cluster.facts().latency;
  std::vector<Phase> phases =
      phases_by_step(place, std::span(messages.begin(), first), ChainOf::Message);
  const std::vector<std::uint32_t> heads_of = heads_of_pieces(plan, op_, pieces(place));
  Phase switched = switched_phase(place, plan, heads_of, std::span(first, last));
  for (const std::vector<std::uint32_t>& heads : plan.heads)
    switched.latency = std::max(switched.latency, fabric_latency(place, heads));
  if (in_node_ == InNode::NvSwitch) switched.latency += 2.0 * latency.intra_step;
  if (phases.empty()) switched.latency += latency.launch;
  phases.push_back(std::move(switched));
  std::vector<Phase> gathers =
      phases_by_step(place, std::span(last, messages.end()), ChainOf::Message);
  if (!gathers.empty()) gathers.front().latency -= latency.launch;
  for (Phase& phase : gathers) phases.push_back(std::move(phase));
  return phases;
}

const CollectiveAlgorithm& sharp_in(InNode in_node) {
  static const SharpCollective direct(CollectiveOp::AllReduce, InNode::Direct);
  static const SharpCollective switched(CollectiveOp::AllReduce, InNode::NvSwitch);
  return in_node == InNode::Direct ? direct : switched;
}

}  // namespace

std::optional<std::string> sharp_refusal(const GroupPlace& place, InNode in_node) {
  if (!place.cluster.facts().fabric_reduces)
    return "the switches of this fabric do not add (InfiniBand with SHARP does: say "
           "\"reduces\": true in the cluster's fabric)";
  const Placement placement = placement_of(place);
  if (placement.nodes.size() < 2) return "the fabric's switches join nodes, here is one";
  if (!placement.even())
    return fmt::format("it needs the same number of ranks on every node, here {} to {}",
                       placement.smallest(), placement.largest());
  const auto heads = sharp_heads(place, placement);
  if (!heads) return "it needs the same NICs used on every node";
  for (std::uint32_t head = 0; head < heads->size(); ++head) {
    std::vector<std::uint32_t> roles;
    for (const auto& node : placement.nodes) roles.push_back(node[(*heads)[head]]);
    if (!reduction_tree(place, roles, head))
      return "no switches of the fabric join the NICs of all nodes";
  }
  if (in_node == InNode::NvSwitch)
    for (const auto& roles : placement.nodes)
      if (!nv_switch_of(place, roles))
        return "it needs two or more GPUs of every node behind an NVSwitch";
  return {};
}

std::vector<Chain> sharp_chains(const GroupPlace& place, InNode in_node, double bytes) {
  std::vector<Chain> chains;
  for (Phase& phase : sharp_in(in_node).phases(place, Bytes{bytes}))
    for (Chain& chain : phase.chains) chains.push_back(std::move(chain));
  return chains;
}

const CollectiveAlgorithm& sharp_all_reduce() { return sharp_in(InNode::Direct); }
const CollectiveAlgorithm& nvls_sharp_all_reduce() { return sharp_in(InNode::NvSwitch); }

const CollectiveAlgorithm& sharp_all_gather() {
  static const SharpCollective algorithm(CollectiveOp::AllGather, InNode::Direct);
  return algorithm;
}

const CollectiveAlgorithm& sharp_reduce_scatter() {
  static const SharpCollective algorithm(CollectiveOp::ReduceScatter, InNode::Direct);
  return algorithm;
}

}  // namespace trainyard
