// Fabrics of several planes: NIC q in plane q (multi_plane), and both ports of a NIC in two planes
// (dual_tor).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

FabricSpec planes(std::uint32_t radix = 64) { return {.kind = MultiPlane{{.radix = radix}}}; }
FabricSpec dual(std::uint32_t radix = 64) { return {.kind = DualTor{{.radix = radix}}}; }

// Do two levels hold 16 384 GPUs? Eight planes of two levels of 64-port switches hold 8 x 2048 GPUs
// (DeepSeek's multi-plane fat-tree, Zhao et al. 2025, arXiv 2505.09343).
TEST(MultiPlane, TwoLevelsHold16384Gpus) {
  const FabricCount count = count_fabric(build_cluster(nodes_of("dgx_h100", 2048, planes())));
  EXPECT_EQ(count.leaves, 8U * 64U);
  EXPECT_EQ(count.spines, 8U * 32U);
  EXPECT_EQ(count.node_cables, 16384U);
  EXPECT_EQ(count.leaf_spine_cables, 16384U);
  const std::string text =
      complaint([] { (void)build_cluster(nodes_of("dgx_h100", 2049, planes())); });
  EXPECT_THAT(text, HasSubstr("/nodes: 2049 nodes do not fit"));
  EXPECT_THAT(text, HasSubstr("holds 2048"));
}

// Do equal indices stay in their plane?
TEST(MultiPlane, EqualIndicesStayInTheirPlane) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 64, planes(32)));
  EXPECT_FALSE(cluster.router().route(3, 63 * 8 + 3).empty());
  for (const RouteHop& hop : cluster.router().route(3, 63 * 8 + 3)) {
    EXPECT_NE(cluster.link(hop.link).kind, LinkKind::NvLink);
  }
}

// Are other planes reached over NVLink? No cable joins two planes: the message changes GPU before
// it leaves.
TEST(MultiPlane, OtherPlanesAreReachedOverNvlink) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 64, planes(32)));
  const Route route = cluster.router().route(0, 63 * 8 + 5);
  EXPECT_EQ(cluster.link(route.front().link).kind, LinkKind::NvLink);
  EXPECT_EQ(cluster.link(route[1].link).to, cluster.gpus()[5]);
  const Route aligned = cluster.router().route_rail_aligned(0, 63 * 8 + 5);
  ASSERT_EQ(route.size(), aligned.size());
  for (std::size_t i = 0; i < route.size(); ++i) EXPECT_EQ(route[i].link, aligned[i].link);
}

// Does the fabric have full bisection?
TEST(MultiPlane, HasFullBisection) {
  EXPECT_DOUBLE_EQ(bisection_bandwidth(build_cluster(nodes_of("dgx_h100", 64, planes(32)))).value(),
                   32 * 8 * 48e9);
}

// Do GPUs on one NIC share its plane?
TEST(MultiPlane, GpusOnOneNicShareItsPlane) {
  ClusterSpec spec = nodes_of("dgx_a100_80gb", 4, planes());
  spec.node.nics = 4;
  const Cluster cluster = build_cluster(spec);
  EXPECT_EQ(count_fabric(cluster).leaves, 4U);
  EXPECT_NE(cluster.link(cluster.router().route(0, 9).front().link).kind, LinkKind::NvLink);
  EXPECT_EQ(cluster.link(cluster.router().route(0, 10).front().link).kind, LinkKind::NvLink);
}

// Are the counts those of the HPN segment? Alibaba HPN: 128 hosts with 8 rails, every NIC on two
// leaves of 128 downlinks: 1024 GPUs on 16 leaves.
TEST(DualTor, CountsOfTheHpnSegment) {
  const FabricSpec fabric{.kind = DualTor{{.radix = 256, .nodes_per_unit = 128}}};
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 128, fabric));
  EXPECT_EQ(cluster.gpus().size(), 1024U);
  const FabricCount count = count_fabric(cluster);
  EXPECT_EQ(count.leaves, 16U);
  EXPECT_EQ(count.node_cables, 2U * 1024U);
}

// Do both ports carry half?
TEST(DualTor, BothPortsCarryHalf) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4, dual()));
  int ports = 0;
  for (const RouteHop& hop : cluster.router().route(0, 8)) {
    if (cluster.link(hop.link).kind != LinkKind::NicPort) continue;
    EXPECT_DOUBLE_EQ(hop.fraction, 0.5);
    EXPECT_DOUBLE_EQ(cluster.link(hop.link).capacity.value(), 48.5e9 / 2);
    ++ports;
  }
  EXPECT_EQ(ports, 4);
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 2 * 8 * 48e9);
  // Same rail, one leaf: nothing beyond the reference distance.
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 8).value(), 0.0);
}

// Do the planes join only in NICs?
TEST(DualTor, PlanesMeetInNicsOnly) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 40, dual(16)));
  const std::uint32_t half = count_fabric(cluster).leaves / 2;
  const auto plane = [&](const Device& leaf) {
    return static_cast<std::uint32_t>(leaf.index) / half;
  };
  std::map<DeviceId, std::set<std::uint32_t>> planes_of_spine;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::LeafSpine) continue;
    const bool up = cluster.device(link.from).kind == DeviceKind::LeafSwitch;
    planes_of_spine[up ? link.to : link.from].insert(
        plane(cluster.device(up ? link.from : link.to)));
  }
  EXPECT_EQ(planes_of_spine.size(), count_fabric(cluster).spines);
  for (const auto& [spine, met] : planes_of_spine) EXPECT_EQ(met.size(), 1U);
}

// Does the fabric survive a dead leaf at half rate?
TEST(DualTor, SurvivesALeafAtHalfRate) {
  ClusterSpec spec = nodes_of("dgx_h100", 4, dual());
  spec.faults = {{.part = Fault::Part::Device, .device = "leaf 0"}};
  const Cluster cluster = build_cluster(spec);
  EXPECT_EQ(cluster.router().route(0, 8).size(), 6U);  // as with one port
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 2 * (7 * 48e9 + 48.5e9 / 2));
}

}  // namespace
}  // namespace trainyard
