// Isomorphic placements of groups, and the mapping of a link of one placement to the other.
#include "sim/contention/isomorphic_placements.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/sim/cluster/hand_cluster.hpp"

namespace trainyard::test {
namespace {

using Gpus = std::vector<std::uint32_t>;

std::uint32_t number_of_mates(IsomorphicPlacements& places, const Gpus& gpus) {
  return places.of_group(gpus).value();
}

// Are nodes isomorphic unless a link differs?
TEST(IsomorphicPlacements, NodesAreIsomorphicUnlessALinkDiffers) {
  const Cluster cluster = hand_cluster(
      {.nodes = 3, .gpus_per_node = 2, .speed = {{{"node 2 gpu 0", "node 2 nvswitch"}, 0.5}}});
  IsomorphicPlacements places(cluster);
  EXPECT_EQ(number_of_mates(places, {0, 1}), number_of_mates(places, {2, 3}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {4, 5}));
  EXPECT_NE(number_of_mates(places, {0, 1}), number_of_mates(places, {3, 2}));
}

// Two nodes of two GPUs and two NICs on one PCIe switch. On the second node each GPU may use the
// NIC of the other.
Cluster two_nodes(bool crossed) {
  Blueprint blueprint;
  const Wire wire{
      .kind = LinkKind::NicPort, .capacity = BytesPerSecond{1e11}, .nominal = BytesPerSecond{1e11}};
  Wire pcie = wire;
  pcie.kind = LinkKind::Pcie;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .node = -1});
  for (std::int32_t node = 0; node < 2; ++node) {
    const DeviceId hub = blueprint.add({.kind = DeviceKind::PcieSwitch, .node = node});
    for (std::int32_t i = 0; i < 2; ++i) {
      gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node, .index = i}));
      nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node, .index = i}));
      blueprint.cable(gpus.back(), hub, pcie);
      blueprint.cable(hub, nics.back(), pcie);
      blueprint.cable(nics.back(), leaf, wire);
    }
  }
  if (crossed) std::swap(nics[2], nics[3]);
  const ClusterFacts facts{.name = "two nodes", .nodes = 2, .gpus_per_node = 2};
  return {facts, std::move(blueprint).wiring(), gpus, nics};
}

// Do nodes differ whose GPUs use other NICs?
TEST(IsomorphicPlacements, NodesDifferWhoseGpusUseOtherNics) {
  for (const bool crossed : {false, true}) {
    const Cluster cluster = two_nodes(crossed);
    IsomorphicPlacements places(cluster);
    EXPECT_EQ(number_of_mates(places, {0, 1}) == number_of_mates(places, {2, 3}), !crossed);
  }
}

// Are messages isomorphic over equally many equal links?
TEST(IsomorphicPlacements, MessagesAreIsomorphicOverEquallyManyEqualLinks) {
  const Cluster cluster = hand_cluster({.nodes = 6,
                                        .gpus_per_node = 2,
                                        .nodes_per_leaf = 2,
                                        .speed = {{{"leaf 2", "node 5 nic 0"}, 0.5}}});
  IsomorphicPlacements places(cluster);
  const auto number = [&](std::uint32_t from, std::uint32_t to) {
    return places.of_message(from, to).value();
  };
  EXPECT_EQ(number(0, 2), number(4, 6));   // both under one leaf
  EXPECT_NE(number(0, 2), number(0, 4));   // over the spines
  EXPECT_EQ(number(0, 4), number(6, 2));   // and back
  EXPECT_NE(number(0, 4), number(1, 5));   // of another GPU of the node
  EXPECT_NE(number(0, 4), number(0, 10));  // into a slow port
  EXPECT_FALSE(places.of_message(0, 1).has_value());
}

// Are groups over a tree isomorphic if they share leaves in the same way?
TEST(IsomorphicPlacements, GroupsOverATreeAreIsomorphicIfTheyShareLeavesEqually) {
  const Cluster cluster = hand_cluster({.nodes = 12, .gpus_per_node = 2, .nodes_per_leaf = 3});
  IsomorphicPlacements places(cluster);
  const auto number = [&](const Gpus& gpus) { return places.of_group(gpus).value(); };
  // By node: two under the first leaf and one under the second; GPUs 0 and 1 of a node.
  EXPECT_EQ(number({0, 2, 6}), number({12, 14, 18}));
  EXPECT_EQ(number({0, 2, 6}), number({2, 4, 12}));
  EXPECT_NE(number({0, 2, 6}), number({0, 6, 8}));  // one, then two
  EXPECT_NE(number({0, 2, 6}), number({0, 2, 4}));  // all under one
  EXPECT_NE(number({0, 2, 6}), number({1, 3, 7}));  // of another GPU of the node
  EXPECT_NE(number({0, 2, 6}), number({6, 2, 0}));  // in reverse order
  EXPECT_NE(number({0, 2, 6}), number({0, 2, 6, 12}));
  EXPECT_EQ(number({0, 1, 6, 7}), number({2, 3, 12, 13}));  // two of each node
  EXPECT_NE(number({0, 1, 6, 7}), number({0, 1, 2, 3}));
}

// Do weaker cables distinguish a switch?
TEST(IsomorphicPlacements, WeakerCablesDistinguishASwitch) {
  const Cluster cluster =
      hand_cluster({.nodes = 12,
                    .gpus_per_node = 2,
                    .nodes_per_leaf = 3,
                    .speed = {{{"spine 0", "leaf 1"}, 0.5}, {{"spine 1", "leaf 1"}, 0.5}}});
  IsomorphicPlacements places(cluster);
  EXPECT_EQ(places.of_group(Gpus{0, 12}).value(), places.of_group(Gpus{2, 18}).value());
  EXPECT_NE(places.of_group(Gpus{0, 12}).value(), places.of_group(Gpus{0, 6}).value());
}

// Does one weaker cable of two leave no tree? The two spines of all leaves are then two different
// paths.
TEST(IsomorphicPlacements, OneWeakerCableOfTwoLeavesNoTree) {
  const Cluster cluster = hand_cluster({.nodes = 12,
                                        .gpus_per_node = 2,
                                        .nodes_per_leaf = 3,
                                        .speed = {{{"spine 0", "leaf 1"}, 0.5}}});
  IsomorphicPlacements places(cluster);
  EXPECT_FALSE(places.of_group(Gpus{0, 12}).has_value());
  EXPECT_TRUE(places.of_group(Gpus{0, 1}).has_value());
  EXPECT_TRUE(places.of_message(0, 12).has_value());
}

// Is a link of one placement mapped to an isomorphic one?
TEST(IsomorphicPlacements, ALinkIsMappedToTheIsomorphicPlacement) {
  const Cluster cluster = hand_cluster({.nodes = 12, .gpus_per_node = 2, .nodes_per_leaf = 3});
  IsomorphicPlacements places(cluster);
  const Gpus here{0, 2, 6};
  const Gpus there{12, 14, 18};
  for (const auto& [from, to] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {1, 2}, {2, 0}}) {
    const Route way = cluster.router().route(here[from], here[to], RouteDetail::ParallelLinks);
    const Route moved = cluster.router().route(there[from], there[to], RouteDetail::ParallelLinks);
    ASSERT_EQ(way.size(), moved.size());
    for (std::size_t hop = 0; hop < way.size(); ++hop) {
      ASSERT_TRUE(places.of_group(here).has_value());
      const auto spot = places.spot_of(way[hop].link);
      ASSERT_TRUE(spot.has_value()) << hop;
      ASSERT_TRUE(places.of_group(there).has_value());
      EXPECT_EQ(places.hop_at(*spot, places.base()).link, moved[hop].link) << hop;
      EXPECT_EQ(places.hop_at(*spot, places.base()).parallel_count, moved[hop].parallel_count)
          << hop;
    }
  }
  ASSERT_TRUE(places.of_group(here).has_value());
  const Route elsewhere = cluster.router().route(12, 18, RouteDetail::ParallelLinks);
  EXPECT_FALSE(places.spot_of(elsewhere.front().link).has_value());
}

}  // namespace
}  // namespace trainyard::test
