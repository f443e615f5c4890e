#include "sim/collectives/algorithms/nvls_messages.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/collectives/algorithms/binary_tree.hpp"
#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/collectives/switch_pass.hpp"

namespace trainyard::nccl {

namespace {

constexpr std::uint32_t kNvlsChunksMost = 1024;
constexpr std::uint32_t kTreeMessagesMost = 1U << 17U;
constexpr std::uint32_t kTreeChannelsMost = 16;  // of each stage; more parts take turns on them
constexpr std::uint32_t kMembershipsMost = 1U << 17U;  // of members in passes, one way

std::vector<std::uint32_t> everyone(const GroupPlace& place) {
  std::vector<std::uint32_t> roles(place.gpus.size());
  std::iota(roles.begin(), roles.end(), 0U);
  return roles;
}

void all_reduce(MessageList& list, std::span<const std::uint32_t> roles, Bytes bytes) {
  const auto n = static_cast<std::uint32_t>(roles.size());
  const std::uint32_t pieces = nvls_chunks_most(n);
  const std::uint32_t chunks = nvls_chunks(n, bytes);
  const std::uint32_t width = pieces / chunks;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const auto pass = [&](std::uint32_t head, std::uint32_t channel) {
      const std::uint32_t begin = head * pieces + chunk * width;
      return SwitchPass{.members = roles,
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

// A double tree over the nodes for one piece: the parent of each node and its depth.
struct NodeTree {
  std::vector<std::optional<std::uint32_t>> parent;
  std::vector<std::uint32_t> depth;
  std::vector<bool> second;  // the second child of its parent
  std::uint32_t deepest = 0;
};

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

// The edges of one level, up or down, for one head's piece; those of second children on the channel
// after the message's.
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

std::uint32_t nvls_chunks_most(std::uint32_t ranks) {
  return std::bit_floor(std::clamp(kMembershipsMost / (ranks * ranks), 1U, kNvlsChunksMost));
}

std::uint32_t nvls_chunks(std::uint32_t ranks, Bytes bytes) {
  return stream_chunks(Bytes{bytes.value() / ranks}, nvls_chunks_most(ranks));
}

std::uint32_t nvls_tree_chunks_most(const GroupPlace& place) {
  const Placement placement = placement_of(place);
  const std::size_t nodes = placement.nodes.size();
  const std::size_t of_chunk = 2 * rails_of(place, placement).size() *
                               (2 * nodes * (placement.largest() + 1) + 2 * (nodes - 1));
  const auto fitting = static_cast<std::uint32_t>(kTreeMessagesMost / of_chunk);
  return std::bit_floor(std::clamp(fitting, 1U, kChunksMost));
}

std::vector<Message> nvls_messages(const GroupPlace& place, CollectiveOp op, Bytes bytes) {
  const std::vector<std::uint32_t> roles = everyone(place);
  const auto n = static_cast<std::uint32_t>(roles.size());
  const std::uint32_t pieces = op == CollectiveOp::AllReduce ? n * nvls_chunks_most(n) : n;
  MessageList list({.ranks = n + 1, .pieces = pieces, .piece_bytes = bytes.value() / pieces});
  if (op == CollectiveOp::AllReduce) {
    all_reduce(list, roles, bytes);
    return std::move(list).take();
  }
  for (std::uint32_t head = 0; head < n; ++head) {
    const SwitchPass pass{
        .members = roles, .hub = n, .head = head, .begin = head, .end = head + 1, .channel = head};
    if (op == CollectiveOp::AllGather)
      pass.copy(list, 0);
    else
      pass.reduce(list, 0);
  }
  return std::move(list).take();
}

namespace {

// One part of NVLSTree, chunk by chunk: read, up the tree, down the tree, write, each stage on a
// channel of its own.
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
    const auto stage = [&](std::uint32_t number) { return number * kTreeChannelsMost + channel_; };
    for (std::uint32_t node = 0; node < placement_.nodes.size(); ++node)
      pass(node, chunk, stage(0)).reduce(list, 0);
    Message edge{.channel = stage(1),
                 .reduce = true,
                 .piece_begin = chunk.begin,
                 .piece_end = chunk.end,
                 .after = {}};
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

std::vector<Message> nvls_tree_messages(const GroupPlace& place, Bytes bytes) {
  const Placement placement = placement_of(place);
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  const std::vector<std::uint32_t> heads = rails_of(place, placement);
  const auto parts = static_cast<std::uint32_t>(2 * heads.size());
  const std::uint32_t most = nvls_tree_chunks_most(place);
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

}  // namespace trainyard::nccl
