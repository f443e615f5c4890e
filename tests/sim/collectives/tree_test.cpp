// NCCL's double trees: their shape and their cost.
#include <gtest/gtest.h>

#include <set>

#include "sim/collectives/algorithms/double_tree.hpp"
#include "sim/collectives/loads.hpp"
#include "test_clusters.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

constexpr int kNobody = -1;
using Row = std::array<int, 3>;  // parent and two children

Row row_of(const TreeShape& shape, std::uint32_t node) {
  const TreeNode entry = tree_node(shape, node);
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? static_cast<int>(*value) : kNobody;
  };
  return {number(entry.parent), number(entry.children[0]), number(entry.children[1])};
}

void expect_tree(const TreeShape& shape, const std::vector<Row>& rows) {
  ASSERT_EQ(rows.size(), shape.nodes);
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    EXPECT_EQ(row_of(shape, node), rows[node]) << "node " << node;
  }
}

// Are the trees of eight nodes those of NCCL (oracle 15: the table of eight nodes)?
TEST(Tree, EightNodesAsInNccl) {
  expect_tree({.nodes = 8, .mirrored = false}, {{{-1, -1, 4},
                                                 {2, -1, -1},
                                                 {4, 1, 3},
                                                 {2, -1, -1},
                                                 {0, 2, 6},
                                                 {6, -1, -1},
                                                 {4, 5, 7},
                                                 {6, -1, -1}}});
  const std::vector<std::set<int>> children{{4}, {}, {1, 3}, {}, {2, 6}, {}, {5, 7}, {}};
  // The mirror image: node r of the second tree is node 7 - r of the first.
  for (std::uint32_t node = 0; node < 8; ++node) {
    const Row row = row_of({.nodes = 8, .mirrored = true}, node);
    std::set<int> mirrored;
    for (const int child : children[7 - node]) mirrored.insert(7 - child);
    std::set<int> found{row[1], row[2]};
    found.erase(kNobody);
    EXPECT_EQ(found, mirrored) << "node " << node;
  }
}

// Are the trees of five nodes those of NCCL?
TEST(Tree, FiveNodesAsInNccl) {
  expect_tree({.nodes = 5, .mirrored = false},
              {{{-1, -1, 4}, {2, -1, -1}, {4, 1, 3}, {2, -1, -1}, {0, 2, -1}}});
  expect_tree({.nodes = 5, .mirrored = true},
              {{{1, 3, -1}, {-1, -1, 0}, {3, -1, -1}, {0, 2, 4}, {3, -1, -1}}});
}

// Is each node an interior node of at most one tree? The two trees have 2(N-1) edges.
TEST(Tree, EvenNodesWorkInOneTreeOnly) {
  for (std::uint32_t nodes = 2; nodes <= 64; nodes += 2) {
    std::uint32_t edges = 0;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      int interior = 0;
      for (const bool mirrored : {false, true}) {
        const TreeNode entry = tree_node({.nodes = nodes, .mirrored = mirrored}, node);
        if (entry.parent) ++edges;
        if (entry.parent && (entry.children[0] || entry.children[1])) ++interior;
      }
      EXPECT_LE(interior, 1) << node << " of " << nodes;
    }
    EXPECT_EQ(edges, 2 * (nodes - 1));
  }
}

// Does the latency grow with the depth? Four bytes over four nodes of eight take 2(7 * 3.4 + 2 *
// 14) us and almost nothing for the bytes.
TEST(Tree, LatencyGrowsWithTheDepth) {
  const Cluster cluster = make_cluster({.nodes = 4, .gpus = 8, .intra_us = 3.4, .inter_us = 14.0});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "tree")->phases(placed, Bytes{4.0});
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_NEAR(phases[0].latency.value(), 2.0 * (7.0 * 3.4 + 2.0 * 14.0) * 1e-6, 1e-15);
  EXPECT_EQ(phases[0].flows.size(), 2U);
}

// Do large buffers use every rail? They use a channel for each member of a node, each on a separate
// rail.
TEST(Tree, LargeBuffersUseEveryRail) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4});
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const auto phases = find_algorithm(CollectiveOp::AllReduce, "tree")->phases(placed, Bytes{1e9});
  EXPECT_EQ(phases[0].flows.size(), 8U);
  std::set<LinkId> ports;
  double bytes = 0.0;
  for (const MultiLinkFlow& link_flow : phases[0].flows) {
    for (const LinkLoad& load : link_flow.loads) {
      if (cluster.link(load.link).kind != LinkKind::NicPort) continue;
      ports.insert(load.link);
      bytes += load.bytes;
    }
  }
  // Each tree sends its share up and down between the two nodes, over an outgoing and an incoming
  // port.
  EXPECT_EQ(ports.size(), 16U);
  EXPECT_NEAR(bytes, 4e9, 1.0);
}

// Are the nodes of a pattern loaded equally? One node represents the pattern; each edge must load
// what it would by itself.
TEST(Tree, NodesOfAPatternAreLoadedEqually) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, {.kind = FatTree{}}));
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const std::vector<MultiLinkFlow> link_flows = double_tree_flows(placed, Bytes{4.0});
  ASSERT_EQ(link_flows.size(), 2U);
  LoadSum asked(cluster);
  for (std::uint32_t group_rank = 0; group_rank < 32; ++group_rank) {
    if (group_rank % 8 == 0) continue;
    asked.add(hop_route(placed, group_rank, group_rank - 1), 2.0);
    asked.add(hop_route(placed, group_rank - 1, group_rank), 2.0);
  }
  for (std::uint32_t node = 0; node < 4; ++node) {
    const TreeNode entry = tree_node({.nodes = 4, .mirrored = false}, node);
    if (!entry.parent) continue;
    const bool first =
        tree_node({.nodes = 4, .mirrored = false}, *entry.parent).children[0] == node;
    const std::uint32_t above = *entry.parent * 8 + (first ? 1 : 0);
    asked.add(hop_route(placed, node * 8, above), 2.0);
    asked.add(hop_route(placed, above, node * 8), 2.0);
  }
  const MultiLinkFlow expected = asked.take();
  ASSERT_EQ(link_flows[0].loads.size(), expected.loads.size());
  for (std::size_t i = 0; i < expected.loads.size(); ++i) {
    EXPECT_EQ(link_flows[0].loads[i].link, expected.loads[i].link) << i;
    EXPECT_EQ(link_flows[0].loads[i].bytes, expected.loads[i].bytes) << i;
  }
}

// Does a group send through the NICs of its members only? One rank of the first node broadcasts to
// eight of the second: all of 8 GiB leave through its own NIC, though trees lead to other rails.
TEST(Tree, SendsThroughTheNicsOfMembersOnly) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 8, .nic = 48e9});
  const std::vector<std::uint32_t> gpus{0, 8, 9, 10, 11, 12, 13, 14, 15};
  for (const char* name : {"tree", "chain"}) {
    const CollectiveAlgorithm* algorithm = find_algorithm(CollectiveOp::Broadcast, name);
    ASSERT_NE(algorithm, nullptr);
    const std::vector<Phase> phases =
        algorithm->phases({.cluster = cluster, .gpus = gpus}, Bytes{8.0 * kGibibyte});
    const std::vector<double> bytes = bytes_on_links(cluster, phases);
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::NicPort || cluster.device(link.from).node != 0) continue;
      const bool own = link.from == cluster.nic_of_gpu()[0];
      EXPECT_NEAR(bytes[link.id], own ? 8.0 * kGibibyte : 0.0, 1.0) << name;
    }
  }
  // Where the whole node is in the group, messages change rails within the node.
  const std::vector<std::uint32_t> all = gpus_of(16);
  const PlacedGroup placed{.cluster = cluster, .gpus = all};
  EXPECT_EQ(hop_route(placed, 0, 13).front().link,
            cluster.router().route_rail_aligned(0, 13).front().link);
}

}  // namespace
}  // namespace trainyard
