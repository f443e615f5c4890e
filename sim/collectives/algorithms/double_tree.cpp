// all_reduce by NCCL's double binary tree. Each of two trees over the nodes reduces half of the
// buffer up to its root and broadcasts it down. Within a node the tree is a chain of the ranks.
//
//    T = 2((g-1) a_i + floor(log2 N) a_e) + 2 S/B       pipelined, B the slowest edge of the trees
//
// g ranks on each of N nodes; a_i and a_e are the latencies of a step within and across nodes
// (NVIDIA/nccl src/graph/tuning.cc). A small buffer uses one channel, because NCCL plans at least
// 32 KiB per channel. 4 bytes over 8 ranks on each of 2 048 nodes: 2(7 * 3.4 + 11 * 14) us = 0.36
// ms, where a ring would take 0.46 s.
#include "sim/collectives/algorithms/double_tree.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/pipeline.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

// Tree 1 of NCCL (ncclGetBtree). The parent clears the lowest set bit b of the node and sets the
// next higher bit; if that node does not exist, it only clears b. The first child is b/2 below the
// node. The second child is b/2 above it, or at the largest smaller power of two above it where a
// node exists. Example: node 6 of 8 has b = 2, the parent (6 xor 2) | 4 = 4 and the children 5 and
// 7.
TreeNode first_tree(std::uint32_t nodes, std::uint32_t node) {
  TreeNode entry;
  if (node == 0) {
    if (nodes > 1) entry.children[1] = std::bit_floor(nodes - 1);
    return entry;
  }
  const std::uint32_t bit = node & (~node + 1);  // the lowest set bit
  const std::uint32_t up = (node ^ bit) | (bit << 1);
  entry.parent = up < nodes ? up : node ^ bit;
  const std::uint32_t half = bit >> 1;
  if (half == 0) return entry;
  entry.children[0] = node - half;
  for (std::uint32_t step = half; step > 0; step >>= 1) {
    if (node + step < nodes) {
      entry.children[1] = node + step;
      break;
    }
  }
  return entry;
}

}  // namespace

TreeNode tree_node(const TreeShape& shape, std::uint32_t node) {
  if (!shape.mirrored) return first_tree(shape.nodes, node);
  const std::uint32_t n = shape.nodes;
  // Tree 2 is tree 1 with the nodes renumbered: reversed for even n, shifted by one for odd n.
  // `there` maps a node into tree 1 and `back` is its inverse.
  const auto there = [n](std::uint32_t i) { return n % 2 == 0 ? n - 1 - i : (i + n - 1) % n; };
  const auto back = [n](std::uint32_t i) { return n % 2 == 0 ? n - 1 - i : (i + 1) % n; };
  TreeNode entry = first_tree(n, there(node));
  if (entry.parent) entry.parent = back(*entry.parent);
  for (auto& child : entry.children)
    if (child) child = back(*child);
  return entry;
}

namespace {

constexpr double kBytesPerChannel = 32.0 * 1024.0;
constexpr std::uint32_t kChannelSetsMost = 16;  // trees beyond this number share channels

constexpr std::uint32_t kNoGroupRank = std::numeric_limits<std::uint32_t>::max();

// One tree over group ranks: the parent of each rank (kNoGroupRank for the root), and the index of
// the part of the buffer that the tree carries.
struct GroupRankTree {
  std::vector<std::uint32_t> parent;
  std::uint32_t piece = 0;
};

// By group rank, the properties of its hop to its parent that determine step and channel of a
// message.
struct GroupRankHops {
  std::vector<std::uint32_t> depth;
  std::vector<bool> second;  // second child of its parent; both children are served concurrently
};

// The member of a node at index `index` of the chain of a channel. Each channel starts at another
// member and therefore leaves the node through another NIC.
std::uint32_t member(const Placement& placement, std::uint32_t node, std::size_t index,
                     std::uint32_t channel) {
  const std::vector<std::uint32_t>& group_ranks = placement.nodes[node];
  return group_ranks[(index + channel) % group_ranks.size()];
}

// By index in a node, true for a member with which no rail begins, because its NIC is dead.
std::vector<bool> left_out(const Placement& placement, const std::vector<std::uint32_t>& rails) {
  std::vector<bool> result(placement.smallest(), true);
  for (const std::uint32_t rail : rails) result[rail] = false;
  return result;
}

// The member of the parent node to which a child node connects. The first member of a node connects
// to the parent node. The parent node takes its first child at its second member and its second
// child at its first member, which spreads the load. Members without a NIC are skipped.
std::uint32_t attachment(const Placement& placement, const TreeShape& shape, std::uint32_t parent,
                         std::uint32_t child, const std::vector<bool>& without_nic,
                         std::uint32_t channel) {
  const bool first_child = tree_node(shape, parent).children[0] == child;
  const std::size_t members = placement.nodes[parent].size();
  if (!first_child || members < 2) return member(placement, parent, 0, channel);
  const auto has_none = [&](std::size_t position) {
    return position < without_nic.size() && without_nic[position];
  };
  std::size_t next = 1;
  while (has_none((next + channel) % members)) ++next;
  return member(placement, parent, next, channel);
}

// The tree of one channel: both trees of the channel begin with the member of its rail.
GroupRankTree make_tree(const Placement& placement, std::size_t ranks, const TreeShape& shape,
                        const std::vector<bool>& without_nic, std::uint32_t channel,
                        std::uint32_t index) {
  GroupRankTree tree{.parent = std::vector<std::uint32_t>(ranks, kNoGroupRank),
                     .piece = 2 * index + (shape.mirrored ? 1 : 0)};
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    for (std::size_t i = 1; i < placement.nodes[node].size(); ++i)
      tree.parent[member(placement, node, i, channel)] = member(placement, node, i - 1, channel);
    if (const auto parent = tree_node(shape, node).parent)
      tree.parent[member(placement, node, 0, channel)] =
          attachment(placement, shape, *parent, node, without_nic, channel);
  }
  return tree;
}

GroupRankHops hops_of(const GroupRankTree& tree) {
  const std::size_t ranks = tree.parent.size();
  GroupRankHops hops{.depth = std::vector<std::uint32_t>(ranks, 0),
                     .second = std::vector<bool>(ranks, false)};
  std::vector<bool> has_child(ranks, false);
  for (std::uint32_t group_rank = 0; group_rank < ranks; ++group_rank) {
    const std::uint32_t above = tree.parent[group_rank];
    if (above == kNoGroupRank) continue;
    for (auto up = above; up != kNoGroupRank; up = tree.parent[up]) ++hops.depth[group_rank];
    hops.second[group_rank] = has_child[above];
    has_child[above] = true;
  }
  return hops;
}

// The trees: two for each channel. There are at most as many channels as rails.
std::vector<GroupRankTree> trees_of(const PlacedGroup& placed, const Placement& placement,
                                    double channels) {
  const auto nodes = static_cast<std::uint32_t>(placement.nodes.size());
  const std::vector<std::uint32_t> rails = rails_of(placed, placement);
  const std::vector<bool> without_nic = left_out(placement, rails);
  const auto count =
      static_cast<std::uint32_t>(std::clamp(channels, 1.0, static_cast<double>(rails.size())));
  std::vector<GroupRankTree> trees;
  for (std::uint32_t index = 0; index < count; ++index) {
    for (const bool mirrored : {false, true}) {
      trees.push_back(make_tree(placement, placed.gpus.size(),
                                {.nodes = nodes, .mirrored = mirrored}, without_nic, rails[index],
                                index));
    }
  }
  return trees;
}

std::vector<GroupRankTree> trees_of(const PlacedGroup& placed, const Placement& placement,
                                    Bytes bytes) {
  return trees_of(placed, placement, bytes.value() / kBytesPerChannel);
}

// The trees with one channel for each rail.
std::vector<GroupRankTree> all_trees(const PlacedGroup& placed) {
  return trees_of(placed, placement_of(placed), std::numeric_limits<double>::infinity());
}

class TreeAllReduce final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "tree"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "double binary tree over the nodes, a chain inside each";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return 2 * kChunksMost *
           static_cast<std::uint32_t>(rails_of(placed, placement_of(placed)).size());
  }
  bool streams() const override { return true; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override;
  std::optional<std::string> refusal(const PlacedGroup&) const override { return {}; }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override;
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override;
};

// The slowest edge of the trees within a node, and the slowest one between nodes.
struct EdgeLatencies {
  Seconds inside;
  Seconds across;
};

EdgeLatencies edge_latencies(const PlacedGroup& placed, const std::vector<GroupRankTree>& trees) {
  EdgeLatencies edges;
  for (const GroupRankTree& tree : trees) {
    for (std::uint32_t group_rank = 0; group_rank < tree.parent.size(); ++group_rank) {
      const std::uint32_t above = tree.parent[group_rank];
      if (above == kNoGroupRank) continue;
      Seconds& slowest = crosses_nodes(placed, group_rank, above) ? edges.across : edges.inside;
      slowest = std::max(slowest, hop_latency(placed, group_rank, above));
    }
  }
  return edges;
}

// Latency of the way up and down: the depth of the chains within nodes and that of the trees
// between nodes (ncclTopoTuneModel).
Seconds tree_latency(const PlacedGroup& placed, const Placement& placement,
                     const std::vector<GroupRankTree>& trees) {
  const EdgeLatencies edges = edge_latencies(placed, trees);
  const auto levels = static_cast<double>(std::bit_width(placement.nodes.size()) - 1);
  return 2.0 *
         (static_cast<double>(placement.largest() - 1) * edges.inside + levels * edges.across);
}

// Adds `bytes` in both directions of an edge.
void add_edge(const PlacedGroup& placed, std::uint32_t group_rank, std::uint32_t above,
              double bytes, LoadSum& loads) {
  loads.add(hop_route(placed, group_rank, above), bytes);
  loads.add(hop_route(placed, above, group_rank), bytes);
}

// The flow of `bytes` over each edge between nodes, and of the loads already in `loads`.
MultiLinkFlow loads_between_nodes(const PlacedGroup& placed, const GroupRankTree& tree,
                                  double bytes, LoadSum& loads) {
  for (std::uint32_t group_rank = 0; group_rank < tree.parent.size(); ++group_rank) {
    const std::uint32_t above = tree.parent[group_rank];
    if (above != kNoGroupRank && crosses_nodes(placed, group_rank, above))
      add_edge(placed, group_rank, above, bytes, loads);
  }
  return loads.take();
}

// The same for the edges within nodes. Isomorphic nodes have the same loads up to the numbers of
// the links, so the routes are searched for one node of each kind only (NodeMembers).
class LoadsWithinNodes {
 public:
  LoadsWithinNodes(const PlacedGroup& placed, const GroupRankTree& tree, double bytes,
                   LoadSum& loads)
      : place_(placed), tree_(tree), bytes_(bytes), loads_(loads) {}

  MultiLinkFlow of_all(const Placement& placement) {
    MultiLinkFlow all;
    for (const std::vector<std::uint32_t>& group_ranks : placement.nodes) {
      const NodeMembers members(place_, group_ranks);
      const auto like = std::ranges::find_if(
          known_, [&](const Known& known) { return known.node.is_like(members); });
      if (like != known_.end()) {
        like->node.append_moved(like->loads, members, all.loads);
        continue;
      }
      std::vector<LinkLoad> loads = asked(group_ranks);
      all.loads.insert(all.loads.end(), loads.begin(), loads.end());
      if (members.holds(loads)) known_.push_back({members, std::move(loads)});
    }
    return sorted(std::move(all));
  }

 private:
  struct Known {
    NodeMembers node;
    std::vector<LinkLoad> loads;
  };

  std::vector<LinkLoad> asked(const std::vector<std::uint32_t>& group_ranks) {
    for (const std::uint32_t group_rank : group_ranks) {
      const std::uint32_t above = tree_.parent[group_rank];
      if (above != kNoGroupRank && !crosses_nodes(place_, group_rank, above))
        add_edge(place_, group_rank, above, bytes_, loads_);
    }
    return loads_.take().loads;
  }

  // The links of the nodes already ascend, as the nodes do, unless a fabric joins GPUs of one node.
  // Only that case needs a sort.
  MultiLinkFlow sorted(MultiLinkFlow flow) {
    const auto falls = [](const LinkLoad& a, const LinkLoad& b) { return a.link >= b.link; };
    if (std::ranges::adjacent_find(flow.loads, falls) == flow.loads.end()) return flow;
    loads_.add(flow);
    return loads_.take();
  }

  const PlacedGroup& place_;
  const GroupRankTree& tree_;
  double bytes_;
  LoadSum& loads_;
  std::vector<Known> known_;
};

std::vector<MultiLinkFlow> flows_of(const PlacedGroup& placed, const Placement& placement,
                                    const std::vector<GroupRankTree>& trees, double bytes) {
  const double share = bytes / static_cast<double>(trees.size());
  std::vector<MultiLinkFlow> flows;
  if (share <= 0.0) return flows;
  LoadSum loads(placed.cluster);
  // The two trees of a channel have the same edges within nodes, so `inside` is computed once.
  for (std::size_t i = 0; i < trees.size(); i += 2) {
    const MultiLinkFlow inside = LoadsWithinNodes(placed, trees[i], share, loads).of_all(placement);
    for (const GroupRankTree& tree : {std::cref(trees[i]), std::cref(trees[i + 1])}) {
      loads.add(inside);
      flows.push_back(loads_between_nodes(placed, tree, share, loads));
    }
  }
  return flows;
}

std::vector<Phase> TreeAllReduce::phases(const PlacedGroup& placed, Bytes bytes) const {
  const Placement placement = placement_of(placed);
  const std::vector<GroupRankTree> trees = trees_of(placed, placement, bytes);
  std::vector<Phase> phases(1);
  phases.front() = {
      .latency = placed.cluster.facts().latency.launch + tree_latency(placed, placement, trees),
      .flows = flows_of(placed, placement, trees, bytes.value())};
  return phases;
}

std::uint32_t deepest(const std::vector<GroupRankHops>& hops) {
  std::uint32_t depth = 0;
  for (const GroupRankHops& of_tree : hops)
    depth = std::max(depth, std::ranges::max(of_tree.depth));
  return depth;
}

std::vector<GroupRankHops> hops_of(const std::vector<GroupRankTree>& trees) {
  std::vector<GroupRankHops> hops;
  for (const GroupRankTree& tree : trees) hops.push_back(hops_of(tree));
  return hops;
}

// The hops of one level of one tree for one chunk: up with reduction, or down with replacement.
struct TreeHops {
  const GroupRankTree& tree;
  const GroupRankHops& of_group_rank;
  std::uint32_t level = 0;
  std::uint32_t step = 0;
  bool up = false;
  PieceRange chunk;
};

void add_hops(MessageList& list, const TreeHops& hops) {
  for (std::uint32_t group_rank = 0; group_rank < hops.tree.parent.size(); ++group_rank) {
    if (hops.of_group_rank.depth[group_rank] != hops.level) continue;
    const std::uint32_t above = hops.tree.parent[group_rank];
    // Each tree has four channels: up and down, and in each direction one for first and one for
    // second children.
    list.send({.from = hops.up ? group_rank : above,
               .to = hops.up ? above : group_rank,
               .step = hops.step,
               .channel = 4 * (hops.tree.piece % kChannelSetsMost) + (hops.up ? 0U : 2U) +
                          (hops.of_group_rank.second[group_rank] ? 1U : 0U),
               .reduce = hops.up,
               .piece_begin = hops.chunk.begin,
               .piece_end = hops.chunk.end});
  }
}

// The chunks travel to the root and are reduced, then travel down. There is always one channel for
// each rail, so that the number of pieces does not depend on the size of the buffer.
std::vector<Message> TreeAllReduce::messages(const PlacedGroup& placed, Bytes bytes) const {
  const std::vector<GroupRankTree> trees = all_trees(placed);
  MessageList list({.ranks = ranks_of(placed),
                    .pieces = pieces(placed),
                    .piece_bytes = bytes.value() / pieces(placed)});
  const std::vector<GroupRankHops> hops = hops_of(trees);
  const std::uint32_t depth = deepest(hops);
  const Bytes share{bytes.value() / static_cast<double>(trees.size())};
  const std::uint32_t chunks = stream_chunks(share, kChunksMost);
  const std::uint32_t size = kChunksMost / chunks;
  // In step t, chunk c is on hop t-c of the way up and down.
  for (std::uint32_t step = 0; step + 1 < 2 * depth + chunks; ++step) {
    for (std::uint32_t chunk = 0; chunk < std::min(chunks, step + 1); ++chunk) {
      const std::uint32_t hop = step - chunk;
      if (hop >= 2 * depth) continue;
      const bool up = hop < depth;
      for (std::size_t i = 0; i < trees.size(); ++i) {
        const std::uint32_t begin = trees[i].piece * kChunksMost + chunk * size;
        add_hops(list, {.tree = trees[i],
                        .of_group_rank = hops[i],
                        .level = up ? depth - hop : hop - depth + 1,
                        .step = step,
                        .up = up,
                        .chunk = {begin, begin + size}});
      }
    }
  }
  return std::move(list).take();
}

// Latency of the first chunk: up the longest branch and down again, in seconds.
double first_chunk_s(const PlacedGroup& placed, const std::vector<GroupRankTree>& trees) {
  Seconds longest;
  for (const GroupRankTree& tree : trees) {
    for (std::uint32_t group_rank = 0; group_rank < tree.parent.size(); ++group_rank) {
      Seconds way;
      for (std::uint32_t at = group_rank; tree.parent[at] != kNoGroupRank; at = tree.parent[at])
        way += hop_latency(placed, at, tree.parent[at]);
      longest = std::max(longest, way);
    }
  }
  return 2.0 * longest.value();
}

FluidBound TreeAllReduce::fluid_bound(const PlacedGroup& placed) const {
  const std::vector<GroupRankTree> trees = all_trees(placed);
  const double latency_s = tree_latency(placed, placement_of(placed), trees).value();
  const double way = latency_s > 0.0 ? first_chunk_s(placed, trees) / latency_s - 1.0 : 0.0;
  const double filling = (2.0 * deepest(hops_of(trees)) - 1.0) / kChunksMost;
  constexpr double kRunsAhead = 0.25;
  return {.relative = std::max({kRunsAhead, way, filling}),
          .reason =
              "the fluid form is full from the start; 64 chunks fill the pipeline hop by hop, "
              "(2 depth - 1)/64 of the bytes' time, and those behind the first run ahead while it "
              "still pays latencies further on, up to a quarter of the time"};
}

}  // namespace

std::vector<MultiLinkFlow> double_tree_flows(const PlacedGroup& placed, Bytes bytes) {
  const Placement placement = placement_of(placed);
  return flows_of(placed, placement, trees_of(placed, placement, bytes), bytes.value());
}

const CollectiveAlgorithm& tree_all_reduce() {
  static const TreeAllReduce algorithm;
  return algorithm;
}

}  // namespace trainyard
