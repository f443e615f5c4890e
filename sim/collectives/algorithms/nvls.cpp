#include "sim/collectives/algorithms/nvls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/collectives/algorithms/double_tree.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/collectives/switches.hpp"

namespace trainyard::nccl {

namespace {

constexpr std::uint32_t kNvlsChunksMost = 1024;
constexpr std::uint32_t kTreeMessagesMost = 1U << 17U;
constexpr std::uint32_t kTreeChannelsMost = 16;  // in each stage; parts beyond it share channels
constexpr std::uint32_t kMembershipsMost = 1U << 17U;  // members of all passes, one direction

std::vector<std::uint32_t> everyone(const PlacedGroup& placed) {
  std::vector<std::uint32_t> group_ranks(placed.gpus.size());
  std::iota(group_ranks.begin(), group_ranks.end(), 0U);
  return group_ranks;
}

// Steps 4c and 4c+1 read chunk c through the switch, steps 4c+2 and 4c+3 write it. Reads and writes
// use different channels, so the read of a chunk overlaps with the write of the chunk before.
void all_reduce(MessageList& list, std::span<const std::uint32_t> group_ranks, Bytes bytes) {
  const auto n = static_cast<std::uint32_t>(group_ranks.size());
  const std::uint32_t pieces = nvls_chunks_most(n);
  const std::uint32_t chunks = nvls_chunks(n, bytes);
  const std::uint32_t width = pieces / chunks;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const auto pass = [&](std::uint32_t head, std::uint32_t channel) {
      const std::uint32_t begin = head * pieces + chunk * width;
      return SwitchPass{.members = group_ranks,
                        .hub = n,
                        .head = head,
                        .begin = begin,
                        .end = begin + width,
                        .channel = channel};
    };
    for (std::uint32_t head = 0; head < n; ++head) pass(head, head).reduce(list, 4 * chunk);
    for (std::uint32_t head = 0; head < n; ++head) pass(head, n + head).copy(list, 4 * chunk + 2);
  }
}

// One tree over the nodes for one part: the parent and the depth of each node.
struct NodeTree {
  std::vector<std::optional<std::uint32_t>> parent;
  std::vector<std::uint32_t> depth;
  std::vector<bool> second;  // the second child of its parent
  std::uint32_t deepest = 0;
};

// The parents, depths and child order of one tree. The depth of a node is the number of edges to
// the root; all edges of one depth run in the same step.
NodeTree node_tree(const TreeShape& shape) {
  NodeTree tree;
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    tree.parent.push_back(tree_node(shape, node).parent);
    const auto above = tree.parent.back();
    tree.second.push_back(above && tree_node(shape, *above).children[1] == node);
  }
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    std::uint32_t depth = 0;
    for (auto up = tree.parent[node]; up; up = tree.parent[*up]) ++depth;
    tree.depth.push_back(depth);
    tree.deepest = std::max(tree.deepest, depth);
  }
  return tree;
}

// The edges of one level for one head's part, upwards or downwards. The edge of a second child uses
// the channel set after that of the message.
void add_level(MessageList& list, const Placement& placement, const NodeTree& tree,
               std::uint32_t level, const Message& message, std::size_t head) {
  for (std::uint32_t node = 0; node < tree.parent.size(); ++node) {
    if (tree.depth[node] != level) continue;
    const std::uint32_t below = placement.nodes[node][head];
    const std::uint32_t above = placement.nodes[*tree.parent[node]][head];
    Message edge = message;
    edge.from = message.reduce ? below : above;
    edge.to = message.reduce ? above : below;
    if (tree.second[node]) edge.channel += kTreeChannelsMost;
    list.send(std::move(edge));
  }
}

}  // namespace

// Each chunk has one pass per head (`ranks` of them), and each pass has `ranks` members, so the
// number of memberships is chunks * ranks^2.
std::uint32_t nvls_chunks_most(std::uint32_t ranks) {
  return std::bit_floor(std::clamp(kMembershipsMost / (ranks * ranks), 1U, kNvlsChunksMost));
}

std::uint32_t nvls_chunks(std::uint32_t ranks, Bytes bytes) {
  return stream_chunks(Bytes{bytes.value() / ranks}, nvls_chunks_most(ranks));
}

std::uint32_t nvls_tree_chunks_most(const PlacedGroup& placed) {
  const Placement placement = placement_of(placed);
  // Messages of one chunk: for each head and tree, a read and a write pass on every node (members +
  // 1 messages each), and every edge of the tree up and down.
  const std::size_t nodes = placement.nodes.size();
  const std::size_t of_chunk = 2 * rails_of(placed, placement).size() *
                               (2 * nodes * (placement.largest() + 1) + 2 * (nodes - 1));
  const auto fitting = static_cast<std::uint32_t>(kTreeMessagesMost / of_chunk);
  return std::bit_floor(std::clamp(fitting, 1U, kChunksMost));
}

std::vector<Message> nvls_messages(const PlacedGroup& placed, CollectiveOp op, Bytes bytes) {
  const std::vector<std::uint32_t> group_ranks = everyone(placed);
  const auto n = static_cast<std::uint32_t>(group_ranks.size());
  const std::uint32_t pieces = op == CollectiveOp::AllReduce ? n * nvls_chunks_most(n) : n;
  MessageList list({.ranks = n + 1, .pieces = pieces, .piece_bytes = bytes.value() / pieces});
  if (op == CollectiveOp::AllReduce) {
    all_reduce(list, group_ranks, bytes);
    return std::move(list).take();
  }
  // The passes of all heads run at the same time, each on its own channel.
  for (std::uint32_t head = 0; head < n; ++head) {
    const SwitchPass pass{.members = group_ranks,
                          .hub = n,
                          .head = head,
                          .begin = head,
                          .end = head + 1,
                          .channel = head};
    if (op == CollectiveOp::AllGather)
      pass.copy(list, 0);
    else
      pass.reduce(list, 0);
  }
  return std::move(list).take();
}

namespace {

// One part of NVLSTree, chunk by chunk. The stages are: read through the switch, up the tree, down
// the tree, write through the switch. Each stage has its own channels.
class TreePart {
 public:
  TreePart(const Placement& placement, std::uint32_t ranks, std::uint32_t head, std::uint32_t part)
      : placement_(placement),
        ranks_(ranks),
        head_(head),
        channel_(part % kTreeChannelsMost),
        tree_(node_tree({.nodes = static_cast<std::uint32_t>(placement.nodes.size()),
                         .mirrored = part % 2 == 1})) {}

  void add_chunk(MessageList& list, PieceRange chunk) const {
    // Steps: 0 and 1 read; one step per level up, then one per level down; the last two write.
    // Second children use the channel set after that of their stage, so the stages 1 and 3 have two
    // sets each.
    const auto stage = [&](std::uint32_t number) { return number * kTreeChannelsMost + channel_; };
    for (std::uint32_t node = 0; node < placement_.nodes.size(); ++node)
      pass(node, chunk, stage(0)).reduce(list, 0);
    Message edge{
        .channel = stage(1), .reduce = true, .piece_begin = chunk.begin, .piece_end = chunk.end};
    for (std::uint32_t level = tree_.deepest; level > 0; --level) {
      edge.step = 2 + tree_.deepest - level;
      add_level(list, placement_, tree_, level, edge, head_);
    }
    edge.channel = stage(3);
    edge.reduce = false;
    for (std::uint32_t level = 1; level <= tree_.deepest; ++level) {
      edge.step = 1 + tree_.deepest + level;
      add_level(list, placement_, tree_, level, edge, head_);
    }
    for (std::uint32_t node = 0; node < placement_.nodes.size(); ++node)
      pass(node, chunk, stage(5)).copy(list, 2 + 2 * tree_.deepest);
  }

 private:
  [[nodiscard]] SwitchPass pass(std::uint32_t node, PieceRange chunk, std::uint32_t channel) const {
    return {.members = placement_.nodes[node],
            .hub = ranks_ + node,
            .head = placement_.nodes[node][head_],
            .begin = chunk.begin,
            .end = chunk.end,
            .channel = channel};
  }

  const Placement& placement_;
  std::uint32_t ranks_;
  std::uint32_t head_;
  std::uint32_t channel_;
  NodeTree tree_;
};

}  // namespace

std::vector<Message> nvls_tree_messages(const PlacedGroup& placed, Bytes bytes) {
  const Placement placement = placement_of(placed);
  const std::uint32_t ranks = ranks_of(placed);
  const std::vector<std::uint32_t> heads = rails_of(placed, placement);
  const auto parts = static_cast<std::uint32_t>(2 * heads.size());
  const std::uint32_t most = nvls_tree_chunks_most(placed);
  const std::uint32_t chunks = stream_chunks(Bytes{bytes.value() / parts}, most);
  MessageList list({.ranks = ranks + static_cast<std::uint32_t>(placement.nodes.size()),
                    .pieces = parts * most,
                    .piece_bytes = bytes.value() / (parts * most)});
  std::vector<TreePart> part_list;
  for (std::uint32_t part = 0; part < parts; ++part)
    part_list.emplace_back(placement, ranks, heads[part / 2], part);
  const std::uint32_t width = most / chunks;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::uint32_t part = 0; part < parts; ++part) {
      const std::uint32_t begin = part * most + chunk * width;
      part_list[part].add_chunk(list, {.begin = begin, .end = begin + width});
    }
  }
  return std::move(list).take();
}

namespace {

using GroupRanks = std::vector<std::uint32_t>;

// The links of a GPU to and from the switch.
struct SwitchWires {
  Route up;
  Route down;
};

// The route to any other member on the node begins and ends with these links. REQUIRES: a switch
// joins the members.
SwitchWires wires_of(const PlacedGroup& placed, const GroupRanks& group_ranks, std::size_t member) {
  const std::uint32_t self = placed.gpus[group_ranks[member]];
  const std::uint32_t other = placed.gpus[group_ranks[member == 0 ? 1 : 0]];
  return {.up = {placed.cluster.router().route(self, other).front()},
          .down = {placed.cluster.router().route(other, self).back()}};
}

bool behind_switch(const PlacedGroup& placed, const GroupRanks& group_ranks) {
  return nv_switch_of(placed, group_ranks).has_value();
}

// The bytes that every member puts on its links, and the additional bytes of a head.
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

void add_tree(const PlacedGroup& placed, const Placement& placement, std::size_t head,
              bool mirrored, double bytes, LoadSum& loads) {
  const TreeShape shape{.nodes = static_cast<std::uint32_t>(placement.nodes.size()),
                        .mirrored = mirrored};
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const TreeNode entry = tree_node(shape, node);
    if (!entry.parent) continue;
    const std::uint32_t below = placement.nodes[node][head];
    const std::uint32_t above = placement.nodes[*entry.parent][head];
    loads.add(hop_route(placed, below, above), bytes);
    loads.add(hop_route(placed, above, below), bytes);
  }
}

// Latency of the slowest edge of the trees between nodes.
Seconds slowest_edge(const PlacedGroup& placed) {
  const Placement placement = placement_of(placed);
  const auto nodes = static_cast<std::uint32_t>(placement.nodes.size());
  const std::vector<std::uint32_t> heads = rails_of(placed, placement);
  Seconds slowest;
  for (const bool mirrored : {false, true}) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const auto parent = tree_node({.nodes = nodes, .mirrored = mirrored}, node).parent;
      if (!parent) continue;
      for (const std::uint32_t head : heads)
        slowest = std::max(slowest, hop_latency(placed, placement.nodes[node][head],
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
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return tree_ ? nvls_tree_refusal(placed) : nvls_refusal(placed);
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    const CollectiveLatency& latency = placed.cluster.facts().latency;
    const double passes = op_ == CollectiveOp::AllReduce ? 2.0 : 1.0;
    Phase phase{.latency = latency.launch + passes * latency.intra_step, .flows = {}};
    if (tree_) {
      const std::size_t nodes = placement_of(placed).nodes.size();
      const double levels = static_cast<double>(std::bit_width(nodes)) - 1.0;
      phase.latency += 2.0 * levels * slowest_edge(placed);
    }
    if (bytes.value() > 0.0)
      phase.flows =
          tree_ ? nvls_tree_flows(placed, bytes.value()) : nvls_flows(placed, op_, bytes.value());
    return {std::move(phase)};
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    const std::uint32_t ranks = ranks_of(placed);
    if (tree_)
      return 2 * static_cast<std::uint32_t>(rails_of(placed, placement_of(placed)).size()) *
             nvls_tree_chunks_most(placed);
    return op_ == CollectiveOp::AllReduce ? ranks * nvls_chunks_most(ranks) : ranks;
  }
  bool streams() const override { return true; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override;
  std::vector<DeviceId> switches(const PlacedGroup& placed) const override {
    std::vector<DeviceId> switches;
    for (const GroupRanks& group_ranks : placement_of(placed).nodes)
      switches.push_back(nv_switch_of(placed, group_ranks).value());
    return switches;
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return tree_ ? nvls_tree_messages(placed, bytes) : nvls_messages(placed, op_, bytes);
  }

 private:
  CollectiveOp op_;
  bool tree_;
};

// Worst cases: a later stage has caught up completely while the first chunk pays its latency, or
// the pipeline fills and drains hop by hop. Without step latency, a single chunk already reaches
// the second one.
FluidBound SwitchAlgorithm::fluid_bound(const PlacedGroup& placed) const {
  constexpr double kSmall = 0.02;  // chunks of 4 KiB compared with the latency of a step
  const bool free = placed.cluster.facts().latency.intra_step.value() <= 0.0;
  if (tree_) {
    const auto levels = static_cast<double>(std::bit_width(placement_of(placed).nodes.size()) - 1);
    const double chunks = free ? 1.0 : nvls_tree_chunks_most(placed);
    return {.relative = std::max(0.3, (2.0 * levels + 1.0) / chunks + kSmall),
            .reason =
                "chunks fill and drain the pipeline stage by stage, and those behind the first run "
                "ahead while it pays the latencies of later stages"};
  }
  if (op_ != CollectiveOp::AllReduce) return {};
  const std::uint32_t ranks = ranks_of(placed);
  const double n = ranks;
  const double filling = (n - 1.0) / (n + 1.0) / (free ? 1 : nvls_chunks_most(ranks));
  return {.relative = std::max(filling, 1.0 / (3.0 * n + 1.0)) + kSmall,
          .reason =
              "the first chunk is read and the last one written alone, (n-1)/(n+1) of the bytes' "
              "time divided by the chunks; while the first write pays its latency the reads run "
              "ahead, at most 1/(3n+1) of the time"};
}

}  // namespace

std::optional<std::string> nvls_refusal(const PlacedGroup& placed) {
  const Placement placement = placement_of(placed);
  if (placement.nodes.size() != 1)
    return fmt::format("nvls runs within one node, here are {} (nvls_tree spans several)",
                       placement.nodes.size());
  if (behind_switch(placed, placement.nodes.front())) return {};
  return "nvls needs GPUs behind an NVSwitch";
}

std::optional<std::string> nvls_tree_refusal(const PlacedGroup& placed) {
  const Placement placement = placement_of(placed);
  if (placement.nodes.size() < 2) return "nvls_tree spans several nodes, here is one (nvls)";
  for (const GroupRanks& group_ranks : placement.nodes)
    if (!behind_switch(placed, group_ranks))
      return "nvls_tree needs two or more GPUs of every node behind an NVSwitch";
  return {};
}

std::vector<MultiLinkFlow> nvls_flows(const PlacedGroup& placed, CollectiveOp op, double bytes) {
  const Placement placement = placement_of(placed);
  const GroupRanks& group_ranks = placement.nodes.front();
  const SwitchBytes share = switch_bytes(op, bytes, static_cast<double>(group_ranks.size()));
  LoadSum loads(placed.cluster);
  for (std::size_t member = 0; member < group_ranks.size(); ++member) {
    const SwitchWires wires = wires_of(placed, group_ranks, member);
    loads.add(wires.up, share.up + share.head_up);
    loads.add(wires.down, share.down + share.head_down);
  }
  std::vector<MultiLinkFlow> flows{loads.take()};
  if (flows.front().loads.empty()) flows.clear();
  return flows;
}

std::vector<MultiLinkFlow> nvls_tree_flows(const PlacedGroup& placed, double bytes) {
  const Placement placement = placement_of(placed);
  const std::vector<std::uint32_t> heads = rails_of(placed, placement);
  const double part = bytes / (2.0 * static_cast<double>(heads.size()));
  LoadSum loads(placed.cluster);
  std::vector<MultiLinkFlow> flows;
  // The passes on all nodes and the edges of one tree form one pipeline, which moves in lockstep:
  // one flow.
  for (const std::uint32_t head : heads) {
    for (const bool mirrored : {false, true}) {
      for (const GroupRanks& group_ranks : placement.nodes) {
        for (std::size_t member = 0; member < group_ranks.size(); ++member) {
          const SwitchWires wires = wires_of(placed, group_ranks, member);
          const double times = member == head ? 2.0 : 1.0;
          loads.add(wires.up, times * part);
          loads.add(wires.down, times * part);
        }
      }
      add_tree(placed, placement, head, mirrored, part, loads);
      loads.take_into(flows);
    }
  }
  return flows;
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
