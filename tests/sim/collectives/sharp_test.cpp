// SHARP: the heads, the switches of the reduction trees, and the loads of the links.
#include "sim/collectives/algorithms/sharp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/collectives/symbolic_check.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "test_clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Shape reducing_nodes() {
  return {.nodes = 4,
          .gpus = 8,
          .nvlink = 370.8e9,
          .nic = 48.5e9,
          .intra_us = 0.0,
          .inter_us = 0.0,
          .reduces = true};
}

// Does SHARP take its closed forms? 14 steps of S/8 over NVLink and S/8 over the NIC; the NICs of a
// ring would carry 1.94 S/8.
TEST(Sharp, ClosedForms) {
  const Cluster cluster = make_cluster(reducing_nodes());
  const auto gpus = gpus_of(32);
  EXPECT_NEAR(microseconds(cluster, CollectiveOp::AllReduce, "sharp", gpus, kGibibyte),
              7834.927593411848, 7.8e-6);
  EXPECT_NEAR(microseconds(cluster, CollectiveOp::AllReduce, "nvls_sharp", gpus, kGibibyte),
              3257.711845, 5e-7);
}

// Do gathers and scatters take their closed forms? Seven steps of S/8 over NVLink, and S/8 over the
// NIC; a gathering NIC receives the part of its eighth that the three other nodes own.
TEST(Sharp, GathersAndScattersTakeTheirClosedForms) {
  Shape shape = reducing_nodes();
  shape.intra_us = 4.0;
  shape.inter_us = 14.0;
  const Cluster cluster = make_cluster(shape);
  const auto gpus = gpus_of(32);
  const double inside = 7.0 * (4.0 + 1e6 * kGibibyte / 8.0 / 370.8e9);
  const double across = 1e6 * kGibibyte / 8.0 / 48.5e9;
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::ReduceScatter, "sharp", gpus, kGibibyte),
                  inside + 14.0 + across);
  EXPECT_RELATIVE(microseconds(cluster, CollectiveOp::AllGather, "sharp", gpus, kGibibyte),
                  inside + 14.0 + 0.75 * across);
}

// Do gathers and scatters use trees of switches? With leaves of two nodes under spines, and two
// GPUs per NIC, every rank must end with the correct result, and a scattering NIC sends its part
// and receives what its node owns.
TEST(Sharp, GathersAndScattersClimbTreesOfSwitches) {
  for (const std::uint32_t nics : {4U, 2U}) {
    ClusterSpec spec = {.node = load_node("dgx_h100"),
                        .nodes = 4,
                        .fabric = {.kind = FatTree{.radix = 2 * nics}, .reduces = true}};
    spec.node.gpus = 4;
    spec.node.nics = nics;
    const Cluster cluster = build_cluster(spec);
    const auto gpus = gpus_of(16);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    ASSERT_GT(sharp_plan(placed, InNode::Direct).trees.front().parent.size(), 1U);
    for (const CollectiveOp op : {CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
      const CollectiveAlgorithm& sharp = *find_algorithm(op, "sharp");
      EXPECT_EQ(symbolic_fault(sharp, placed, Bytes{16e6}).value_or(""), "") << nics;
      const auto bytes = bytes_on_links(cluster, sharp.phases(placed, Bytes{16e6}));
      const bool gathers = op == CollectiveOp::AllGather;
      std::size_t ports = 0;
      for (const Link& link : cluster.links()) {
        if (link.kind != LinkKind::NicPort) continue;
        const bool out = cluster.device(link.from).kind == DeviceKind::Nic;
        const double own = 4e6 / nics;
        EXPECT_NEAR(bytes[link.id], out == gathers ? own : gathers ? 3.0 * own : 4.0 * own, 1e-3);
        ++ports;
      }
      EXPECT_EQ(ports, 2U * 4U * nics);
    }
  }
}

// Does every NIC of planes, which are joined within nodes only, take its part? Four nodes then take
// the time that they take on rails.
TEST(Sharp, UsesEveryPlane) {
  const auto time = [](FabricKind kind) {
    const Cluster cluster = build_cluster({.node = load_node("dgx_h100"),
                                           .nodes = 4,
                                           .fabric = {.kind = std::move(kind), .reduces = true}});
    return microseconds(cluster, CollectiveOp::AllReduce, "sharp", gpus_of(32), kGibibyte);
  };
  EXPECT_RELATIVE(time(MultiPlane{}), time(RailOptimized{}));
}

// Does every NIC send and receive one part?
TEST(Sharp, EveryNicSendsAndReceivesOnePart) {
  const Cluster cluster = make_cluster(reducing_nodes());
  const auto gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  for (const InNode in_node : {InNode::Direct, InNode::NvSwitch}) {
    const std::vector<double> bytes =
        bytes_on_links(cluster, {{.latency = {}, .flows = sharp_flows(placed, in_node, 8e6)}});
    std::size_t ports = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind == LinkKind::NicPort) {
        EXPECT_NEAR(bytes[link.id], 1e6, 1e-6);
        ++ports;
      }
    }
    EXPECT_EQ(ports, 2U * 32U);
  }
}

// Does a refusal name a remedy?
TEST(Sharp, RefusesWithARemedy) {
  Shape shape = reducing_nodes();
  shape.reduces = false;
  const Cluster plain = make_cluster(shape);
  const auto gpus = gpus_of(32);
  EXPECT_THAT(sharp_refusal({.cluster = plain, .gpus = gpus}, InNode::Direct).value_or(""),
              HasSubstr("\"reduces\": true"));
  const Cluster cluster = make_cluster(reducing_nodes());
  const auto one_node = gpus_of(8);
  EXPECT_THAT(sharp_refusal({.cluster = cluster, .gpus = one_node}, InNode::Direct).value_or(""),
              HasSubstr("here is one"));
  const auto uneven = gpus_of(9);
  EXPECT_THAT(sharp_refusal({.cluster = cluster, .gpus = uneven}, InNode::Direct).value_or(""),
              HasSubstr("same number"));
  const auto rail = gpus_of(4, 8);
  EXPECT_FALSE(sharp_refusal({.cluster = cluster, .gpus = rail}, InNode::Direct).has_value());
  EXPECT_THAT(sharp_refusal({.cluster = cluster, .gpus = rail}, InNode::NvSwitch).value_or(""),
              HasSubstr("NVSwitch"));
}

// Is there a tree over the fat tree for every head? Four nodes of 8 on leaves of one node each: a
// tree of four leaves and a spine for every head, with the roots spread over the spines.
TEST(Sharp, TreesOfAFatTree) {
  const Cluster cluster = build_cluster(
      {.node = load_node("dgx_h100"), .nodes = 4, .fabric = {.kind = FatTree{.radix = 16}}});
  const auto gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const SharpPlan plan = sharp_plan(placed, InNode::Direct);
  ASSERT_EQ(plan.trees.size(), 8U);
  std::set<DeviceId> roots;
  for (const ReductionTree& tree : plan.trees) {
    EXPECT_EQ(tree.parent.size(), 4U);
    EXPECT_EQ(cluster.device(tree.root).kind, DeviceKind::SpineSwitch);
    EXPECT_EQ(tree.upwards().back(), tree.root);
    roots.insert(tree.root);
  }
  EXPECT_GT(roots.size(), 1U);
}

// Does NCCL use a fabric that reduces, from two nodes on? Every choice of NCCL must have a form on
// the links.
TEST(Sharp, NcclTakesAFabricThatReduces) {
  for (const std::uint32_t nodes : {2U, 4U}) {
    const Cluster cluster = build_cluster({.node = load_node("dgx_h100"),
                                           .nodes = nodes,
                                           .fabric = {.kind = RailOptimized{}, .reduces = true}});
    const nccl::NcclModel communication(cluster, {});
    const auto gpus = gpus_of(8 * nodes);
    std::set<std::string> taken;
    for (const CollectiveOp op :
         {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
      for (const std::int64_t bytes : {1LL << 10, 1LL << 20, 1LL << 26, 1LL << 33}) {
        const CollectiveCall call{.op = op, .bytes = bytes, .algorithm = "nccl"};
        EXPECT_FALSE(communication.phases(call, gpus).front().flows.empty());
        taken.insert(communication.stepwise_name(call, gpus));
      }
    }
    EXPECT_TRUE(taken.contains("sharp") || taken.contains("nvls_sharp")) << nodes;
    EXPECT_FALSE(taken.contains("nvls")) << "it runs on one node";
  }
}

// Is the root of a tree where the farthest leaf is nearest? The spine is one hop from both leaves,
// which are two hops from each other. The first leaf is the first device of this cluster.
TEST(Sharp, RootIsNearestToTheFarthestLeaf) {
  Shape shape = reducing_nodes();
  shape.nodes_per_leaf = 2;
  const Cluster cluster = make_cluster(shape);
  ASSERT_EQ(cluster.device(0).kind, DeviceKind::LeafSwitch);
  const auto gpus = gpus_of(4, 8);
  const auto tree = reduction_tree({.cluster = cluster, .gpus = gpus}, {0, 1, 2, 3}, 0);
  ASSERT_TRUE(tree.has_value());
  EXPECT_EQ(cluster.device(tree->root).kind, DeviceKind::SpineSwitch);
  EXPECT_EQ(tree->parent.size(), 2U);
}

// Is the tree of a rail its leaf? There is one leaf per rail, so no switch above it participates.
TEST(Sharp, TreeOfARailIsItsLeaf) {
  const Cluster cluster = build_cluster(
      {.node = load_node("dgx_h100"), .nodes = 4, .fabric = {.kind = RailOptimized{}}});
  const auto rail = gpus_of(4, 8);
  const auto tree = reduction_tree({.cluster = cluster, .gpus = rail}, {0, 1, 2, 3}, 0);
  ASSERT_TRUE(tree.has_value());
  EXPECT_TRUE(tree->parent.empty());
  EXPECT_EQ(cluster.device(tree->root).kind, DeviceKind::LeafSwitch);
}

}  // namespace
}  // namespace trainyard
