#include "sim/collectives/algorithms/nvls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/collectives/algorithms/binary_tree.hpp"
#include "sim/collectives/algorithms/nvls_messages.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/collectives/switch_routes.hpp"

namespace trainyard::nccl {

namespace {

using Roles = std::vector<std::uint32_t>;

// A GPU's two wires to the switch.
struct SwitchWires {
  Route up;
  Route down;
};

// By way of any other member on the node. REQUIRES: they are joined by a switch.
SwitchWires wires_of(const GroupPlace& place, const Roles& roles, std::size_t member) {
  const std::uint32_t self = place.gpus[roles[member]];
  const std::uint32_t other = place.gpus[roles[member == 0 ? 1 : 0]];
  return {.up = {place.cluster.router().route(self, other).front()},
          .down = {place.cluster.router().route(other, self).back()}};
}

bool behind_switch(const GroupPlace& place, const Roles& roles) {
  return nv_switch_of(place, roles).has_value();
}

// What all members, and beyond that each head, put on their wires.
struct SwitchBytes {
  double up = 0.0;
  double down = 0.0;
  double head_up = 0.0;
  double head_down = 0.0;
};

SwitchBytes switch_bytes(CollectiveOp op, double bytes, double heads) {
  const double part = bytes / heads;
  if (op == CollectiveOp::AllGather) return {.down = bytes, .head_up = part};
  if (op == CollectiveOp::ReduceScatter) return {.up = bytes, .head_down = part};
  return {.up = bytes, .down = bytes, .head_up = part, .head_down = part};
}

void add_tree(const GroupPlace& place, const Placement& placement, std::size_t head, bool mirrored,
              double bytes, LoadSum& loads) {
  const TreeShape shape{.nodes = static_cast<std::uint32_t>(placement.nodes.size()),
                        .mirrored = mirrored};
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const TreeNode entry = tree_node(shape, node);
    if (!entry.parent) continue;
    const std::uint32_t below = placement.nodes[node][head];
    const std::uint32_t above = placement.nodes[*entry.parent][head];
    loads.add(hop_route(place, below, above), bytes);
    loads.add(hop_route(place, above, below), bytes);
  }
}

// The slowest edge of the trees between nodes.
Seconds slowest_edge(const GroupPlace& place) {
  const Placement placement = placement_of(place);
  const auto nodes = static_cast<std::uint32_t>(placement.nodes.size());
  const std::vector<std::uint32_t> heads = rails_of(place, placement);
  Seconds slowest;
  for (const bool mirrored : {false, true}) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const auto parent = tree_node({.nodes = nodes, .mirrored = mirrored}, node).parent;
      if (!parent) continue;
      for (const std::uint32_t head : heads)
        slowest = std::max(slowest, hop_latency(place, placement.nodes[node][head],
                                                placement.nodes[*parent][head]));
    }
  }
  return slowest;
}

class SwitchAlgorithm : public CollectiveAlgorithm {
 public:
  SwitchAlgorithm(CollectiveOp op, bool tree) : op_(op), tree_(tree) {}
  std::string_view name() const override { return tree_ ? "nvls_tree" : "nvls"; }
  CollectiveOp op() const override { return op_; }
  std::string_view summary() const override {
    return tree_ ? "NVSwitch adds and copies in the node, a double tree per head across nodes"
                 : "NVSwitch adds and copies; one node";
  }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    return tree_ ? nvls_tree_refusal(place) : nvls_refusal(place);
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    const CollectiveLatency& latency = place.cluster.facts().latency;
    const double passes = op_ == CollectiveOp::AllReduce ? 2.0 : 1.0;
    Phase phase{.latency = latency.launch + passes * latency.intra_step, .chains = {}};
    if (tree_) {
      const std::size_t nodes = placement_of(place).nodes.size();
      const double levels = static_cast<double>(std::bit_width(nodes)) - 1.0;
      phase.latency += 2.0 * levels * slowest_edge(place);
    }
    if (bytes.value() > 0.0)
      phase.chains =
          tree_ ? nvls_tree_chains(place, bytes.value()) : nvls_chains(place, op_, bytes.value());
    return {std::move(phase)};
  }
  std::uint32_t pieces(const GroupPlace& place) const override {
    const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
    if (tree_)
      return 2 * static_cast<std::uint32_t>(rails_of(place, placement_of(place)).size()) *
             nvls_tree_chunks_most(place);
    return op_ == CollectiveOp::AllReduce ? ranks * nvls_chunks_most(ranks) : ranks;
  }
  bool streams() const override { return true; }
  FluidBound fluid_bound(const GroupPlace& place) const override;
  std::vector<DeviceId> parties(const GroupPlace& place) const override {
    std::vector<DeviceId> switches;
    for (const Roles& roles : placement_of(place).nodes)
      switches.push_back(nv_switch_of(place, roles).value());
    return switches;
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override {
    return tree_ ? nvls_tree_messages(place, bytes) : nvls_messages(place, op_, bytes);
  }

 private:
  CollectiveOp op_;
  bool tree_;
};

// In the worst case all of a later stage is done while the first chunk pays its latency, or the
// pipeline fills and drains hop by hop; of steps without latency already for a single chunk.
FluidBound SwitchAlgorithm::fluid_bound(const GroupPlace& place) const {
  constexpr double kSmall = 0.02;  // chunks of 4 KiB beside a step's latency
  const bool free = place.cluster.facts().latency.intra_step.value() <= 0.0;
  if (tree_) {
    const auto levels = static_cast<double>(std::bit_width(placement_of(place).nodes.size()) - 1);
    const double chunks = free ? 1.0 : nvls_tree_chunks_most(place);
    return {.relative = std::max(0.3, (2.0 * levels + 1.0) / chunks + kSmall),
            .reason =
                "chunks fill and drain the pipeline stage by stage, and those behind the first run "
                "ahead while it pays the latencies of later stages"};
  }
  if (op_ != CollectiveOp::AllReduce) return {};
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  const double n = ranks;
  const double filling = (n - 1.0) / (n + 1.0) / (free ? 1 : nvls_chunks_most(ranks));
  return {.relative = std::max(filling, 1.0 / (3.0 * n + 1.0)) + kSmall,
          .reason =
              "the first chunk is read and the last one written alone, (n-1)/(n+1) of the bytes' "
              "time divided by the chunks; while the first write pays its latency the reads run "
              "ahead, at most 1/(3n+1) of the time"};
}

}  // namespace

std::optional<std::string> nvls_refusal(const GroupPlace& place) {
  const Placement placement = placement_of(place);
  if (placement.nodes.size() != 1)
    return fmt::format("nvls runs within one node, here are {} (nvls_tree spans several)",
                       placement.nodes.size());
  if (behind_switch(place, placement.nodes.front())) return {};
  return "nvls needs GPUs behind an NVSwitch";
}

std::optional<std::string> nvls_tree_refusal(const GroupPlace& place) {
  const Placement placement = placement_of(place);
  if (placement.nodes.size() < 2) return "nvls_tree spans several nodes, here is one (nvls)";
  for (const Roles& roles : placement.nodes)
    if (!behind_switch(place, roles))
      return "nvls_tree needs two or more GPUs of every node behind an NVSwitch";
  return {};
}

std::vector<Chain> nvls_chains(const GroupPlace& place, CollectiveOp op, double bytes) {
  const Placement placement = placement_of(place);
  const Roles& roles = placement.nodes.front();
  const SwitchBytes share = switch_bytes(op, bytes, static_cast<double>(roles.size()));
  LoadSum loads(place.cluster);
  for (std::size_t member = 0; member < roles.size(); ++member) {
    const SwitchWires wires = wires_of(place, roles, member);
    loads.add(wires.up, share.up + share.head_up);
    loads.add(wires.down, share.down + share.head_down);
  }
  std::vector<Chain> chains{loads.take()};
  if (chains.front().loads.empty()) chains.clear();
  return chains;
}

std::vector<Chain> nvls_tree_chains(const GroupPlace& place, double bytes) {
  const Placement placement = placement_of(place);
  const std::vector<std::uint32_t> heads = rails_of(place, placement);
  const double part = bytes / (2.0 * static_cast<double>(heads.size()));
  LoadSum loads(place.cluster);
  std::vector<Chain> chains;
  for (const std::uint32_t head : heads) {
    for (const bool mirrored : {false, true}) {
      for (const Roles& roles : placement.nodes) {
        for (std::size_t member = 0; member < roles.size(); ++member) {
          const SwitchWires wires = wires_of(place, roles, member);
          const double times = member == head ? 2.0 : 1.0;
          loads.add(wires.up, times * part);
          loads.add(wires.down, times * part);
        }
      }
      add_tree(place, placement, head, mirrored, part, loads);
      if (Chain chain = loads.take(); !chain.loads.empty()) chains.push_back(std::move(chain));
    }
  }
  return chains;
}

const CollectiveAlgorithm& nvls_all_reduce() {
  static const SwitchAlgorithm algorithm(CollectiveOp::AllReduce, false);
  return algorithm;
}

const CollectiveAlgorithm& nvls_all_gather() {
  static const SwitchAlgorithm algorithm(CollectiveOp::AllGather, false);
  return algorithm;
}

const CollectiveAlgorithm& nvls_reduce_scatter() {
  static const SwitchAlgorithm algorithm(CollectiveOp::ReduceScatter, false);
  return algorithm;
}

const CollectiveAlgorithm& nvls_tree_all_reduce() {
  static const SwitchAlgorithm algorithm(CollectiveOp::AllReduce, true);
  return algorithm;
}

}  // namespace trainyard::nccl
