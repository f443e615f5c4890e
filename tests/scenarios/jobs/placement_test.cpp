// Which GPUs does a job get?
#include "scenarios/jobs/placement.hpp"

#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using Numbers = std::vector<std::uint32_t>;

// Eight nodes of 8 GPUs; a leaf of a fat tree of radix 32 has the 16 NICs of two nodes.
Cluster eight_nodes() {
  return build_cluster(
      {.node = load_node("dgx_a100_80gb"), .nodes = 8, .fabric = {.kind = FatTree{.radix = 32}}});
}

Numbers nodes_of(const Numbers& gpus) {
  Numbers nodes;
  for (std::size_t i = 0; i < gpus.size(); i += 8) nodes.push_back(gpus[i] / 8);
  return nodes;
}

TEST(Placement, NodesAreNumberedByTheLeafOfTheirNics) {
  EXPECT_EQ(leaves_of_nodes(eight_nodes()), (Numbers{0, 0, 1, 1, 2, 2, 3, 3}));
  const Cluster rails = build_cluster({.node = load_node("dgx_a100_80gb"),
                                       .nodes = 4,
                                       .fabric = {.kind = RailOptimized{.nodes_per_unit = 2}}});
  EXPECT_EQ(leaves_of_nodes(rails), (Numbers{0, 0, 1, 1}));
}

TEST(Placement, PackedJobsFillNodesInOrder) {
  const Cluster cluster = eight_nodes();
  FreeGpus free(cluster);
  EXPECT_EQ(nodes_of(free.take({}, 16)), (Numbers{0, 1}));
  EXPECT_EQ(nodes_of(free.take({}, 24)), (Numbers{2, 3, 4}));
}

TEST(Placement, SpreadJobsTakeALeafAfterTheOther) {
  const Cluster cluster = eight_nodes();
  FreeGpus free(cluster);
  (void)free.take({}, 8);  // node 0
  EXPECT_EQ(nodes_of(free.take({.kind = PlacementKind::Spread}, 40)), (Numbers{1, 2, 4, 6, 3}));
}

TEST(Placement, LeavesAndNodesAreThoseGiven) {
  const Cluster cluster = eight_nodes();
  FreeGpus free(cluster);
  EXPECT_EQ(nodes_of(free.take({.kind = PlacementKind::Leaves, .chosen = {3, 1}}, 24)),
            (Numbers{6, 7, 2}));
  EXPECT_EQ(nodes_of(free.take({.kind = PlacementKind::Nodes, .chosen = {5, 0}}, 16)),
            (Numbers{5, 0}));
  EXPECT_EQ(free.take({.kind = PlacementKind::Gpus, .chosen = {12, 8}}, 2), (Numbers{12, 8}));
}

TEST(Placement, AFragmentedJobTakesNodesByItsSeed) {
  const Cluster cluster = eight_nodes();
  const auto nodes = [&](std::uint64_t seed) {
    return nodes_of(FreeGpus(cluster).take({.kind = PlacementKind::Fragmented, .seed = seed}, 32));
  };
  EXPECT_EQ(nodes(1), nodes(1));
  EXPECT_NE(nodes(1), nodes(2));
}

// A small job takes a part of a node, and the next one fits beside it.
TEST(Placement, PartsOfNodesAreShared) {
  const Cluster cluster = eight_nodes();
  FreeGpus free(cluster);
  EXPECT_EQ(free.take({}, 4), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(free.take({}, 8).front(), 8U);
  EXPECT_EQ(free.take({}, 3), (Numbers{4, 5, 6}));
  // A node and a half: a whole node, then half of one.
  const Numbers more = free.take({}, 12);
  EXPECT_EQ(more.front(), 16U);
  EXPECT_EQ(more.back(), 27U);
}

std::string refusal(FreeGpus& free, const PlacementSpec& placement, std::uint32_t count) {
  try {
    (void)free.take(placement, count);
    return "";
  } catch (const RunError& error) {
    return error.what();
  }
}

TEST(Placement, WhatDoesNotFitIsSaid) {
  const Cluster cluster = eight_nodes();
  FreeGpus free(cluster);
  (void)free.take({}, 8);
  EXPECT_EQ(refusal(free, {}, 64), "the job needs 64 GPUs, and its placement finds 56 (packed)");
  EXPECT_EQ(refusal(free, {.kind = PlacementKind::Leaves, .chosen = {0}}, 16),
            "the job needs 16 GPUs, and its placement finds 8 (leaves 0)");
  EXPECT_EQ(refusal(free, {.kind = PlacementKind::Nodes, .chosen = {0}}, 8),
            "another job has GPU 0");
  EXPECT_EQ(refusal(free, {.kind = PlacementKind::Nodes, .chosen = {8}}, 8),
            "there is no node 8, they are numbered 0 to 7");
  EXPECT_EQ(refusal(free, {.kind = PlacementKind::Gpus, .chosen = {9, 10}}, 3),
            "the job needs 3 GPUs, and 2 are listed");
}

}  // namespace
}  // namespace trainyard
