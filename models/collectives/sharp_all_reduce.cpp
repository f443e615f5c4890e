#include <fmt/format.h>

#include <algorithm>

#include "models/collectives/loads.hpp"
#include "models/collectives/relay.hpp"
#include "models/collectives/sharp.hpp"
#include "models/collectives/sharp_plan.hpp"
#include "models/collectives/switch_routes.hpp"

namespace trainyard {

namespace {

class SharpAllReduce final : public CollectiveAlgorithm {
 public:
  explicit SharpAllReduce(InNode in_node) : in_node_(in_node) {}
  std::string_view name() const override {
    return in_node_ == InNode::Direct ? "sharp" : "nvls_sharp";
  }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return in_node_ == InNode::Direct
               ? "the fabric's switches add, after a direct exchange in the node"
               : "the fabric's switches add, NVSwitch adds and copies in the node";
  }
  std::uint32_t pieces(const GroupPlace& place) const override {
    return static_cast<std::uint32_t>(sharp_heads(place, placement_of(place)).value().size());
  }
  FluidBound fluid_bound(const GroupPlace& /*place*/) const override {
    if (in_node_ == InNode::Direct) return {};
    return {.relative = 2.0,
            .reason = "the fluid form is one pipeline, messages go up, across and down whole"};
  }
  std::vector<DeviceId> parties(const GroupPlace& place) const override {
    return sharp_plan(place, in_node_).parties;
  }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return sharp_refusal(place, in_node_);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override;
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return sharp_messages(sharp_plan(place, in_node_), in_node_,
                          static_cast<std::uint32_t>(place.gpus.size()), bytes);
  }

 private:
  InNode in_node_;
};

// All messages in which switches take part are on the wires at once.
Phase switched_phase(const GroupPlace& place, const SharpPlan& plan,
                     std::span<const Message> messages) {
  Phase phase;
  std::vector<std::vector<std::uint32_t>> of_head(plan.heads.size());
  for (std::uint32_t index = 0; index < messages.size(); ++index)
    of_head[messages[index].piece_begin].push_back(index);
  for (const std::vector<std::uint32_t>& chosen : of_head)
    if (Chain chain = chain_of(place, plan.parties, messages, chosen); !chain.loads.empty())
      phase.chains.push_back(std::move(chain));
  return phase;
}

std::vector<Phase> SharpAllReduce::phases(const GroupPlace& place, Bytes bytes) const {
  const SharpPlan plan = sharp_plan(place, in_node_);
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  const std::vector<Message> messages = sharp_messages(plan, in_node_, ranks, bytes);
  const auto is_switched = [&](const Message& message) {
    return message.from >= ranks || message.to >= ranks;
  };
  const auto first = std::find_if(messages.begin(), messages.end(), is_switched);
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_switched).base();
  const CollectiveLatency& latency = place.cluster.facts().latency;
  std::vector<Phase> phases =
      phases_by_step(place, std::span(messages.begin(), first), ChainOf::Message);
  Phase switched = switched_phase(place, plan, std::span(first, last));
  switched.latency = latency.inter_step;
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
  static const SharpAllReduce direct(InNode::Direct);
  static const SharpAllReduce switched(InNode::NvSwitch);
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

}  // namespace trainyard
