// Switch and cable counts of published systems, limits, and the bandwidth of the bisection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/draft.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

FabricSpec rail(std::uint32_t nodes_per_unit = 0) {
  return {.kind = RailOptimized{.nodes_per_unit = nodes_per_unit}};
}

// NVIDIA DGX SuperPOD reference architectures (H100, B200), component tables. The H100 design
// leaves one node slot of its 32-node units to management, so its leaves have 32 uplinks for 31 or
// 32 nodes.
struct SuperPod {
  std::string node;
  std::uint32_t nodes;
  std::uint32_t leaves, spines, cores;
  std::uint32_t leaf_spine, spine_core;
};

class Published : public testing::TestWithParam<SuperPod> {};

// Do the counts agree with the published ones?
TEST_P(Published, CountsAgree) {
  const SuperPod& pod = GetParam();
  const Cluster cluster = build_cluster(nodes_of(pod.node, pod.nodes, rail()));
  const FabricCount count = count_fabric(cluster);
  EXPECT_EQ(count.leaves, pod.leaves);
  EXPECT_EQ(count.spines, pod.spines);
  EXPECT_EQ(count.cores, pod.cores);
  EXPECT_EQ(count.node_cables, pod.nodes * 8);
  EXPECT_EQ(count.leaf_spine_cables, pod.leaf_spine);
  EXPECT_EQ(count.spine_core_cables, pod.spine_core);
}

INSTANTIATE_TEST_SUITE_P(SuperPods, Published,
                         testing::Values(SuperPod{"dgx_h100", 31, 8, 4, 0, 256, 0},
                                         SuperPod{"dgx_h100", 63, 16, 8, 0, 512, 0},
                                         SuperPod{"dgx_h100", 95, 24, 16, 0, 768, 0},
                                         SuperPod{"dgx_h100", 127, 32, 16, 0, 1024, 0},
                                         SuperPod{"dgx_b200", 64, 16, 8, 0, 512, 0},
                                         SuperPod{"dgx_b200", 128, 32, 16, 0, 1024, 0},
                                         SuperPod{"dgx_b200", 256, 64, 32, 0, 2048, 0},
                                         SuperPod{"dgx_b200", 512, 128, 128, 64, 4096, 4096},
                                         SuperPod{"dgx_b200", 1024, 256, 256, 128, 8192, 8192},
                                         SuperPod{"dgx_b200", 2048, 512, 512, 256, 16384, 16384}));

// Do two levels hold 2048 endpoints (oracle 28)? With 64 ports, two levels hold 64^2/2 = 2048
// endpoints and three 64^3/4 = 65 536.
TEST(FatTree, TwoLevelsHold2048Endpoints) {
  ClusterSpec spec{.node = one_gpu_node(), .nodes = 2048, .fabric = {.kind = FatTree{}}};
  const FabricCount count = count_fabric(build_cluster(spec));
  EXPECT_EQ(count.leaves, 64U);
  EXPECT_EQ(count.spines, 32U);
  spec.nodes = 2049;
  const std::string text = complaint([&] { (void)build_cluster(spec); });
  EXPECT_THAT(text, HasSubstr("/nodes: 2049 nodes do not fit"));
  EXPECT_THAT(text, HasSubstr("hold 2048"));
  EXPECT_THAT(text, HasSubstr("fat_tree3"));
}

// Do three levels hold 65 536 endpoints?
TEST(FatTree, ThreeLevelsHold65536Endpoints) {
  ClusterSpec spec{.node = one_gpu_node(), .nodes = 65537, .fabric = {.kind = FatTree3{}}};
  EXPECT_THAT(complaint([&] { (void)build_cluster(spec); }), HasSubstr("hold 65536"));
  // The same law with fewer ports, built completely: 16^3/4 = 1024 endpoints.
  spec.fabric.kind = FatTree3{.radix = 16};
  spec.nodes = 1024;
  const FabricCount count = count_fabric(build_cluster(spec));
  EXPECT_EQ(count.leaves, 128U);
  EXPECT_EQ(count.spines, 128U);
  EXPECT_EQ(count.cores, 64U);
  EXPECT_EQ(count.leaf_spine_cables, 1024U);
  EXPECT_EQ(count.spine_core_cables, 1024U);
  spec.nodes = 1025;
  EXPECT_THAT(complaint([&] { (void)build_cluster(spec); }), HasSubstr("hold 1024"));
}

// Can the whole fabric of 65 536 endpoints be built?
TEST(FatTree, WholeFabricOf65536EndpointsBuilds) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 8192, {.kind = FatTree3{}}));
  EXPECT_EQ(cluster.gpus().size(), 65536U);
  const FabricCount count = count_fabric(cluster);
  EXPECT_EQ(count.leaves, 2048U);
  EXPECT_EQ(count.spines, 2048U);
  EXPECT_EQ(count.cores, 1024U);
  EXPECT_GT(cluster.router().route(0, 65535).size(), 4U);
}

// Does a rail-optimised fabric hold as many nodes as a fat tree?
TEST(RailOptimized, HoldsAsMuchAsAFatTree) {
  EXPECT_THAT(complaint([] { (void)build_cluster(nodes_of("dgx_h100", 8193, rail())); }),
              HasSubstr("hold 8192"));
}

// Does leaf q take NIC q?
TEST(RailOptimized, LeafQTakesNicQ) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 40, rail(16)));
  std::size_t ports = 0;
  for (const Link& link : cluster.links()) {
    const Device& nic = cluster.device(link.from);
    if (link.kind != LinkKind::NicPort || nic.kind != DeviceKind::Nic) continue;
    EXPECT_EQ(cluster.device(link.to).index, nic.node / 16 * 8 + nic.index);
    ++ports;
  }
  EXPECT_EQ(ports, 40U * 8U);
}

// Does a rack have the rails of its trays? The 18 trays of a rack are servers of 4 NICs each: 4
// rails, and a leaf takes the trays of a rack.
TEST(RailOptimized, ARackHasTheRailsOfItsTrays) {
  for (const auto& [racks, leaves] : {std::pair{2U, 8U}, {16U, 64U}, {512U, 2048U}}) {
    const Cluster cluster = build_cluster(nodes_of("gb200_nvl72", racks, rail()));
    EXPECT_EQ(count_fabric(cluster).leaves, leaves);
    EXPECT_EQ(count_fabric(cluster).node_cables, racks * 72);
    std::size_t seen = 0;
    for (const Link& link : cluster.links()) {
      const Device& nic = cluster.device(link.from);
      if (link.kind != LinkKind::NicPort || nic.kind != DeviceKind::Nic) continue;
      ASSERT_EQ(cluster.device(link.to).index, nic.node * 4 + nic.index % 4);
      ++seen;
    }
    EXPECT_EQ(seen, racks * 72);
  }
  EXPECT_THAT(complaint([] { (void)build_cluster(nodes_of("gb200_nvl72", 513, rail())); }),
              HasSubstr("513 nodes with 4 rails do not fit: three tiers of 64-port switches hold "
                        "512"));
  // A leaf of 16 downlinks has no room for a rack: its units have 16 trays.
  const FabricSpec small{.kind = RailOptimized{.radix = 32}};
  EXPECT_EQ(count_fabric(build_cluster(nodes_of("gb200_nvl72", 2, small))).leaves, 12U);
}

// Are more nodes refused than a leaf has ports?
TEST(RailOptimized, RefusesMoreNodesThanALeafHasPorts) {
  const std::string text =
      complaint([] { (void)build_cluster(nodes_of("dgx_h100", 40, rail(40))); });
  EXPECT_THAT(text, HasSubstr("/fabric/nodes_per_unit"));
  EXPECT_THAT(text, HasSubstr("40 ports down and 40 up"));
  EXPECT_THAT(text, HasSubstr("at most 32 nodes"));
}

// Are ports shared between down and up?
TEST(Clos, PortsAreSharedBetweenDownAndUp) {
  EXPECT_EQ(downlinks(64, 1.0), 32U);
  EXPECT_EQ(downlinks(64, 3.0), 48U);
  EXPECT_EQ(downlinks(64, 7.0), 56U);
  EXPECT_EQ(downlinks(64, 1.5), 36U);
  EXPECT_EQ(uplinks(36, 1.5), 24U);
  EXPECT_EQ(uplinks(42, 2.0), 21U);
  EXPECT_EQ(uplinks(32, 3.0), 11U);  // whole cables, rounded in favour of bandwidth
  EXPECT_EQ(divisor_at_least(32, 12), 16U);
  EXPECT_EQ(divisor_at_least(32, 33), 0U);
}

// Is the bisection of one node half its NVLinks?
TEST(Bisection, OfOneNodeIsHalfItsNvlinks) {
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(nodes_of("dgx_h100", 1))).value(),
                   4 * 370.8e9);
  // Full mesh: 4 x 4 links cross, 48 GB/s each.
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(nodes_of("mi300x", 1))).value(), 16 * 48e9);
}

// Is the bisection of two nodes their NICs?
TEST(Bisection, OfTwoNodesIsTheirNics) {
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(nodes_of("dgx_a100_80gb", 2))).value(),
                   8 * 23.5e9);
  // On H100 the 48 GB/s that NCCL assumes for PCIe are less than the NIC's 48.5.
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(nodes_of("dgx_h100", 2))).value(), 8 * 48e9);
}

// Does the bisection shrink with oversubscription?
TEST(Bisection, ShrinksWithOversubscription) {
  // 4 ports down to each leaf; radix 8 splits into 4 and 4, radix 6 at 2:1 into 4 and 2.
  NodeSpec node = load_node("dgx_a100_80gb");
  node.gpus = node.nics = node.gpus_per_cpu = 4;
  for (const auto& [radix, ratio] : {std::pair{8U, 1.0}, std::pair{6U, 2.0}}) {
    const Cluster cluster =
        build_cluster({.node = node,
                       .nodes = 4,
                       .fabric = {.kind = FatTree{.radix = radix, .oversubscription = ratio}}});
    EXPECT_EQ(count_fabric(cluster).leaves, 4U);
    EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 8 * 23.5e9 / ratio);
  }
}

// Does the bisection shrink above the pods?
TEST(Bisection, ShrinksAboveThePods) {
  // Radix 8 at 3:1 above the spines: pods of 6 leaves with 4 NICs, of which a third crosses the
  // cores.
  const auto rate = [](double ratio) {
    ClusterSpec spec{.node = one_gpu_node(),
                     .nodes = 48,
                     .fabric = {.kind = FatTree3{.radix = 8, .core_oversubscription = ratio}}};
    return bisection_bandwidth(build_cluster(spec)).value();
  };
  EXPECT_DOUBLE_EQ(rate(3.0), 24 * 48.5e9 / 3.0);
  EXPECT_DOUBLE_EQ(rate(1.0), 24 * 48e9);
}

// Are specs made in code checked, too?
TEST(Fabric, SpecsMadeInCodeAreCheckedToo) {
  const auto text = [](ClusterSpec spec) { return complaint([&] { (void)build_cluster(spec); }); };
  EXPECT_THAT(text(nodes_of("dgx_h100", 0)), HasSubstr("at least one node"));
  EXPECT_THAT(text(nodes_of("dgx_h100", 2, {.kind = FatTree{.oversubscription = 0.5}})),
              HasSubstr("at least 1"));
  EXPECT_THAT(text(nodes_of("dgx_h100", 2, {.kind = FatTree{.radix = 1}})),
              HasSubstr("/fabric/radix"));
  ClusterSpec bare = nodes_of("dgx_h100", 2);
  bare.node.nics = 0;
  EXPECT_THAT(text(bare), HasSubstr("no NIC"));
}

}  // namespace
}  // namespace trainyard
