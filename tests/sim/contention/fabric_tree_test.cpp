// The fabric as a tree: switches in sets, their parents, and which GPUs belong to a tree.
#include "sim/contention/fabric_tree.hpp"

#include <gtest/gtest.h>

#include "sim/cluster/blueprint.hpp"

namespace trainyard {
namespace {

struct TwoTiers {
  std::uint32_t leaves = 2;     // each with one node of one GPU
  std::uint32_t spines = 1;     // each leaf has a cable to each
  bool spine_to_spine = false;  // a cable between the first two spines, which breaks the tree
};

Cluster two_tiers(const TwoTiers& shape) {
  Blueprint blueprint;
  const auto wire = [](LinkKind kind) {
    return Wire{.kind = kind, .capacity = BytesPerSecond{1e11}, .nominal = BytesPerSecond{1e11}};
  };
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  for (std::uint32_t node = 0; node < shape.leaves; ++node) {
    const auto number = static_cast<std::int32_t>(node);
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = number}));
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = number}));
    blueprint.cable(gpus.back(), nics.back(), wire(LinkKind::Pcie));
  }
  std::vector<DeviceId> leaves;
  for (std::uint32_t leaf = 0; leaf < shape.leaves; ++leaf) {
    leaves.push_back(blueprint.add({.kind = DeviceKind::LeafSwitch, .node = -1}));
    blueprint.cable(nics[leaf], leaves.back(), wire(LinkKind::NicPort));
  }
  std::vector<DeviceId> spines;
  for (std::uint32_t spine = 0; spine < shape.spines; ++spine) {
    spines.push_back(blueprint.add({.kind = DeviceKind::SpineSwitch, .node = -1}));
    for (const DeviceId leaf : leaves)
      blueprint.cable(leaf, spines.back(), wire(LinkKind::LeafSpine));
  }
  if (shape.spine_to_spine) blueprint.cable(spines.at(0), spines.at(1), wire(LinkKind::LeafSpine));
  const ClusterFacts facts{.name = "two tiers", .nodes = shape.leaves, .gpus_per_node = 1};
  return {facts, std::move(blueprint).wiring(), gpus, nics};
}

// Is a fat tree a tree? Its spines are one set of switches, which is above every leaf and joined to
// it by one link for each spine.
TEST(FabricTree, LeavesAreBelowTheSetOfTheirSpines) {
  const FabricTree tree(two_tiers({.leaves = 3, .spines = 4}));
  EXPECT_EQ(tree.size(), 4U);
  std::vector<std::uint32_t> wirings;
  for (std::uint32_t gpu = 0; gpu < 3; ++gpu) {
    ASSERT_NE(tree.switch_of(gpu), kNone);
    const FabricTree::Node& leaf = tree.node(tree.switch_of(gpu));
    ASSERT_NE(leaf.above, kNone);
    EXPECT_EQ(leaf.up.parallel_count, 4U);
    EXPECT_EQ(leaf.down.parallel_count, 4U);
    EXPECT_EQ(tree.node(leaf.above).above, kNone);
    EXPECT_NE(leaf.wiring, tree.node(leaf.above).wiring);
    wirings.push_back(leaf.wiring);
  }
  EXPECT_EQ(wirings, std::vector<std::uint32_t>(3, wirings.front()));
}

// Does a cable between spines leave every GPU below them outside a tree? From there a message has
// more than one way.
TEST(FabricTree, NoGpuBelowSpinesThatAreJoinedBelongsToATree) {
  const FabricTree tree(two_tiers({.leaves = 3, .spines = 2, .spine_to_spine = true}));
  EXPECT_EQ(tree.size(), 4U) << "the two spines are still one set";
  for (std::uint32_t gpu = 0; gpu < 3; ++gpu) EXPECT_EQ(tree.switch_of(gpu), kNone) << gpu;
}

}  // namespace
}  // namespace trainyard
