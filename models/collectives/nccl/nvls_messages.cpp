#include "models/collectives/nccl/nvls_messages.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "models/collectives/binary_tree.hpp"
#include "models/collectives/placement.hpp"
#include "models/collectives/switch_pass.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kChunkBytes = 128.0 * 1024.0;
constexpr std::uint32_t kChunksMost = 1024;
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
  std::uint32_t deepest = 0;
};

NodeTree node_tree(const TreeShape& shape) {
  NodeTree tree;
  for (std::uint32_t node = 0; node < shape.nodes; ++node)
    tree.parent.push_back(tree_node(shape, node).parent);
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    std::uint32_t depth = 0;
    for (auto up = tree.parent[node]; up; up = tree.parent[*up]) ++depth;
    tree.depth.push_back(depth);
    tree.deepest = std::max(tree.deepest, depth);
  }
  return tree;
}

// The edges of one level, up or down, for one head's piece.
void add_level(MessageList& list, const Placement& placement, const NodeTree& tree,
               std::uint32_t level, Message message, std::size_t head) {
  for (std::uint32_t node = 0; node < tree.parent.size(); ++node) {
    if (tree.depth[node] != level) continue;
    const std::uint32_t below = placement.nodes[node][head];
    const std::uint32_t above = placement.nodes[*tree.parent[node]][head];
    message.from = message.reduce ? below : above;
    message.to = message.reduce ? above : below;
    list.send(message);
  }
}

}  // namespace

std::uint32_t nvls_chunks_most(std::uint32_t ranks) {
  return std::bit_floor(std::clamp(kMembershipsMost / (ranks * ranks), 1U, kChunksMost));
}

std::uint32_t nvls_chunks(std::uint32_t ranks, Bytes bytes) {
  const double wanted = bytes.value() / ranks / kChunkBytes;
  const double most = nvls_chunks_most(ranks);
  return std::bit_floor(static_cast<std::uint32_t>(std::clamp(wanted, 1.0, most)));
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

std::vector<Message> nvls_tree_messages(const GroupPlace& place, Bytes bytes) {
  const Placement placement = placement_of(place);
  const auto nodes = static_cast<std::uint32_t>(placement.nodes.size());
  const auto heads = static_cast<std::uint32_t>(placement.smallest());
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  MessageList list(
      {.ranks = ranks + nodes, .pieces = 2 * heads, .piece_bytes = bytes.value() / (2.0 * heads)});
  for (std::uint32_t piece = 0; piece < 2 * heads; ++piece) {
    const std::uint32_t head = piece / 2;
    const NodeTree tree = node_tree({.nodes = nodes, .mirrored = piece % 2 == 1});
    const auto pass = [&](std::uint32_t node) {
      return SwitchPass{.members = placement.nodes[node],
                        .hub = ranks + node,
                        .head = placement.nodes[node][head],
                        .begin = piece,
                        .end = piece + 1,
                        .channel = piece};
    };
    Message edge{.channel = piece, .piece_begin = piece, .piece_end = piece + 1, .after = {}};
    for (std::uint32_t node = 0; node < nodes; ++node) pass(node).reduce(list, 0);
    edge.reduce = true;
    for (std::uint32_t level = tree.deepest; level > 0; --level) {
      edge.step = 2 + tree.deepest - level;
      add_level(list, placement, tree, level, edge, head);
    }
    edge.reduce = false;
    for (std::uint32_t level = 1; level <= tree.deepest; ++level) {
      edge.step = 1 + tree.deepest + level;
      add_level(list, placement, tree, level, edge, head);
    }
    for (std::uint32_t node = 0; node < nodes; ++node) pass(node).copy(list, 2 + 2 * tree.deepest);
  }
  return std::move(list).take();
}

}  // namespace trainyard::nccl
