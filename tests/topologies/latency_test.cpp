// The cost of distance: every switch beyond the first adds the latency of the cable to it.
#include <gtest/gtest.h>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"

namespace trainyard {
namespace {

constexpr double kHop = 5e-7;

// Is the extra latency zero across one switch?
TEST(ExtraLatency, IsNothingAcrossOneSwitch) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 4));
  for (std::uint32_t b = 1; b < 32; ++b) {
    EXPECT_EQ(cluster.latency().extra(0, b).value(), 0.0);
    EXPECT_EQ(cluster.latency().extra_rail_aligned(0, b).value(), 0.0);
  }
}

// Does the extra latency grow with the number of switches? A path has 1 switch on the same rail in
// the same unit, 3 to another rail or unit, 5 beyond the cores.
TEST(ExtraLatency, GrowsWithSwitches) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 512, {.kind = RailOptimized{}}));
  ASSERT_GT(count_fabric(cluster).cores, 0U);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 8).value(), 0.0);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 511 * 8).value(), 2 * kHop);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 9).value(), 4 * kHop);
  EXPECT_DOUBLE_EQ(cluster.latency().extra_rail_aligned(0, 9).value(), 0.0);
  EXPECT_DOUBLE_EQ(cluster.latency().extra_rail_aligned(0, 511 * 8 + 5).value(), 2 * kHop);
}

// Do nodes have the latencies of their own NICs, whichever of two kinds is the usual one? Steps of
// collectives take those of the slower kind.
TEST(Latency, IsTheSameWhicheverKindOfNodeIsTheUsualOne) {
  const NodeSpec slow = load_node("dgx_h100");
  NodeSpec fast = slow;
  fast.nic_latency = slow.nic_latency / 4.0;
  fast.latency.launch = slow.latency.launch / 2.0;
  ClusterSpec one = {.node = slow, .nodes = 2, .others = {{.nodes = {1}, .node = fast}}};
  ClusterSpec other = {.node = fast, .nodes = 2, .others = {{.nodes = {0}, .node = slow}}};
  const Cluster clusters[] = {build_cluster(one), build_cluster(other)};
  for (const Cluster& cluster : clusters) {
    EXPECT_EQ(cluster.facts().latency, slow.latency);
    std::size_t ports = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::NicPort) continue;
      const std::int32_t node =
          std::max(cluster.device(link.from).node, cluster.device(link.to).node);
      EXPECT_EQ(link.latency, node == 0 ? slow.nic_latency : fast.nic_latency);
      ++ports;
    }
    EXPECT_EQ(ports, 2U * 2U * 8U);
  }
}

// Does the extra latency follow the hop latency of the fabric?
TEST(ExtraLatency, FollowsTheHopLatencyOfTheFabric) {
  const Cluster cluster = build_cluster(
      one_gpu_nodes(64, {.kind = FatTree3{.radix = 8, .hop_latency = Seconds{2e-7}}}));
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 1).value(), 0.0);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 5).value(), 2 * 2e-7);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 63).value(), 4 * 2e-7);
}

// Is the extra latency of a torus that of its hops?
TEST(ExtraLatency, OfATorusIsItsHops) {
  const Cluster cluster =
      build_cluster(one_gpu_nodes(64, {.kind = Torus{.dims = {8, 8}, .cables = 1}}));
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 1).value(), kHop);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 7).value(), kHop);              // around
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 4 * 8 + 4).value(), 8 * kHop);  // the farthest
}

// Is the extra latency of a torus of GPUs that of its additional hops? A GPU that forwards traffic
// adds its link; the nearest GPU is the reference.
TEST(ExtraLatency, OfATorusOfGpusIsItsFurtherHops) {
  NodeSpec node = load_node("dgx_h100");
  node.scale_up = NodeSpec::ScaleUp::Torus;
  node.scale_up_dims = {8};
  const Cluster cluster = build_cluster({.node = node, .nodes = 1});
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 1).value(), 0.0);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 4).value(), 3 * node.nvlink_latency.value());
  const Cluster mesh = build_cluster(nodes_of("mi300x", 1));
  EXPECT_DOUBLE_EQ(mesh.latency().extra(0, 7).value(), 0.0);
}

// Is the extra latency that of the slowest shortest path? Two halls are 100 km apart: at 5 us per
// km of fibre, 0.5 ms on the spine's cables. The fast spine does not help: half of the bytes use
// the slow one.
TEST(ExtraLatency, OfTheSlowestShortestPath) {
  ClusterSpec spec = one_gpu_nodes(8, {.kind = FatTree{.radix = 8}});
  const Cluster level = build_cluster(spec);
  Wiring wiring = level.wiring();
  wiring.rewire([&](const Link& link) {
    Wire wire = wire_of(link);
    if (level.name(link.from) == "leaf 1" && level.name(link.to) == "spine 0")
      wire.latency = Seconds{5e-4};
    return wire;
  });
  const Cluster cluster(level.facts(), std::move(wiring), level.gpus(), level.nic_of_gpu());
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 1).value(), 0.0);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(4, 0).value(), 5e-4 + kHop);
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 4).value(), 2 * kHop);
}

// Does the extra latency agree with the route? It must equal the sum over the links of a route that
// is one path.
TEST(ExtraLatency, AgreesWithTheRouteItself) {
  ClusterSpec spec = one_gpu_nodes(128, {.kind = FatTree3{.radix = 8}});
  spec.fabric.routing.kind = Routing::Kind::Ecmp;
  const Cluster cluster = build_cluster(spec);
  for (std::uint32_t b = 1; b < 128; ++b) {
    double switches = 0.0;
    for (const RouteHop& hop : cluster.router().route(0, b)) {
      const Link& link = cluster.link(hop.link);
      const bool between = link.kind == LinkKind::LeafSpine || link.kind == LinkKind::SpineCore;
      switches += between ? link.latency.value() : 0.0;
    }
    EXPECT_DOUBLE_EQ(cluster.latency().extra(0, b).value(), switches);
  }
}

}  // namespace
}  // namespace trainyard
