// Do routes conserve flow at every device and keep to rails, and does ideal routing load a full
// fabric evenly?
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

// Outgoing minus incoming flow of every device that the route touches.
std::map<DeviceId, double> balance(const Cluster& cluster, const Route& route) {
  std::map<DeviceId, double> net;
  for (const RouteHop& hop : route) {
    net[cluster.link(hop.link).from] += hop.fraction;
    net[cluster.link(hop.link).to] -= hop.fraction;
  }
  return net;
}

void expect_conserved(const Cluster& cluster, const Route& route, std::uint32_t a,
                      std::uint32_t b) {
  ASSERT_FALSE(route.empty()) << a << " to " << b;
  for (const auto& [device, net] : balance(cluster, route)) {
    const double wanted = device == cluster.gpus()[a]   ? 1.0
                          : device == cluster.gpus()[b] ? -1.0
                                                        : 0.0;
    ASSERT_NEAR(net, wanted, 1e-12) << a << " to " << b << " at " << cluster.name(device);
  }
}

class EveryFabric : public testing::TestWithParam<std::string> {};

// Does every fabric conserve the flow at every device?
TEST_P(EveryFabric, ConservesFlowAtEveryDevice) {
  // 96 nodes with radix 16: 3 units or more, and cores where the fabric has them.
  using Kind = Routing::Kind;
  for (const Kind routing : {Kind::Ideal, Kind::Ecmp, Kind::RoundRobin}) {
    const Cluster cluster =
        build_cluster(nodes_of("dgx_h100", 12,
                               {.kind = fabric_named(GetParam(), 16),
                                .routing = {.kind = routing, .flows_per_connection = 3}}));
    std::size_t routes = 0;
    for (std::uint32_t a = 0; a < 96; a += 5) {
      for (std::uint32_t b = 0; b < 96; ++b) {
        if (a == b) continue;
        expect_conserved(cluster, cluster.router().route(a, b), a, b);
        expect_conserved(cluster, cluster.router().route_rail_aligned(a, b), a, b);
        ++routes;
      }
    }
    EXPECT_EQ(routes, 20U * 95U);
  }
}

double switches_entered(const Cluster& cluster, const Route& route) {
  double entered = 0.0;
  for (const RouteHop& hop : route)
    if (is_fabric_switch(cluster.device(cluster.link(hop.link).to).kind)) entered += hop.fraction;
  return entered;
}

// Is the number of switches of a route correct?
TEST_P(EveryFabric, CountsTheSwitchesOfARoute) {
  for (const Routing::Kind routing : {Routing::Kind::Ideal, Routing::Kind::Ecmp}) {
    const Cluster cluster =
        build_cluster(nodes_of("dgx_h100", 12,
                               {.kind = fabric_named(GetParam(), 16),
                                .routing = {.kind = routing, .flows_per_connection = 3}}));
    // Global links count as three, and routers of a torus are switches or NICs.
    const bool told = GetParam() != "dragonfly" && GetParam() != "torus";
    std::size_t routes = 0;
    for (std::uint32_t a = 0; a < 96; a += 5) {
      for (std::uint32_t b = 0; b < 96; ++b) {
        if (cluster.node_of(a) == cluster.node_of(b)) continue;
        const std::optional<std::uint32_t> count = cluster.router().switches_between(a, b);
        ASSERT_TRUE(count.has_value() || !told);
        if (!count) continue;
        ASSERT_NEAR(*count, switches_entered(cluster, cluster.router().route(a, b)), 1e-9);
        ++routes;
      }
    }
    if (told) {
      EXPECT_EQ(routes, 20U * 88U) << "to the GPUs of the eleven other nodes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryFabric, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const FabricEntry& entry : fabrics())
                             names.emplace_back(entry.name);
                           return names;
                         }()),
                         [](const auto& instance) { return instance.param; });

// Does the suite above run on all fabrics?
TEST(Fabrics, AreAllThere) { EXPECT_GE(fabrics().size(), 8U); }

// Does a route inside a node use NVLink up and down?
TEST(Route, InANodeIsNvlinkUpAndDown) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const Route route = cluster.router().route(8, 11);
  ASSERT_EQ(route.size(), 2U);
  EXPECT_EQ(cluster.link(route[0].link).kind, LinkKind::NvLink);
  EXPECT_EQ(cluster.link(route[0].link).from, cluster.gpus()[8]);
  EXPECT_EQ(cluster.link(route[1].link).to, cluster.gpus()[11]);
  EXPECT_TRUE(cluster.router().route(8, 8).empty());
}

// Does a node without NVLink use PCIe?
TEST(Route, WithoutNvlinkTakesPcie) {
  ClusterSpec spec = nodes_of("dgx_a100_80gb", 1);
  spec.node.scale_up = NodeSpec::ScaleUp::None;
  const Cluster cluster = build_cluster(spec);
  EXPECT_EQ(cluster.router().route(0, 1).size(), 2U);  // one PCIe switch
  EXPECT_EQ(cluster.router().route(0, 2).size(), 4U);  // two, over their CPU
  EXPECT_EQ(cluster.router().route(0, 7).size(), 5U);  // and the link between the CPUs
}

// Does a route between nodes use the GPU's own NIC?
TEST(Route, BetweenNodesUsesTheOwnNic) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const Route route = cluster.router().route(3, 13);  // GPU 3 of node 0 to GPU 5 of node 1
  std::vector<LinkKind> kinds;
  for (const RouteHop& hop : route) kinds.push_back(cluster.link(hop.link).kind);
  const std::vector<LinkKind> expected = {LinkKind::Pcie,    LinkKind::Pcie, LinkKind::NicPort,
                                          LinkKind::NicPort, LinkKind::Pcie, LinkKind::Pcie};
  EXPECT_EQ(kinds, expected);
  EXPECT_EQ(cluster.link(route[2].link).from, cluster.nic_of_gpu()[3]);
  EXPECT_EQ(cluster.link(route[3].link).to, cluster.nic_of_gpu()[13]);
}

// Does a route spread over all spines?
TEST(Route, SpreadsOverAllSpines) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 64, {.kind = RailOptimized{}}));
  ASSERT_EQ(count_fabric(cluster).spines, 8U);
  int up = 0;
  for (const RouteHop& hop : cluster.router().route(0, 63 * 8)) {
    if (cluster.link(hop.link).kind != LinkKind::LeafSpine) continue;
    EXPECT_DOUBLE_EQ(hop.fraction, 1.0 / 8.0);
    ++up;
  }
  EXPECT_EQ(up, 16);
}

// Does a rail-aligned route cross one leaf?
TEST(Route, RailAlignedCrossesOneLeaf) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 32, {.kind = RailOptimized{}}));
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = 8; b < 16; ++b) {
      const Route route = cluster.router().route_rail_aligned(a, b);
      int nvlinks = 0;
      for (const RouteHop& hop : route) {
        EXPECT_DOUBLE_EQ(hop.fraction, 1.0);
        const LinkKind kind = cluster.link(hop.link).kind;
        EXPECT_NE(kind, LinkKind::LeafSpine);
        nvlinks += kind == LinkKind::NvLink ? 1 : 0;
      }
      EXPECT_EQ(nvlinks, a == b - 8 ? 0 : 2);
      EXPECT_EQ(cluster.link(route[route.size() - 3].link).from != cluster.nic_of_gpu()[a], true);
    }
  }
  // Direct routes to another rail do cross the spines.
  EXPECT_GT(cluster.router().route(0, 9).size(), 6U);
}

// Do equal rails stay below the cores?
TEST(Route, EqualRailsStayBelowTheCores) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 512, {.kind = RailOptimized{}}));
  ASSERT_EQ(count_fabric(cluster).cores, 64U);
  EXPECT_FALSE(cluster.router().route_rail_aligned(0, 511 * 8 + 5).empty());
  for (const RouteHop& hop : cluster.router().route_rail_aligned(0, 511 * 8 + 5)) {
    EXPECT_NE(cluster.link(hop.link).kind, LinkKind::SpineCore);
  }
}

// The load of the worst link. Oracle 28: on a 1:1 two-level tree with ideal routing, permutation
// traffic runs at full rate: no link carries more than one NIC's flow per NIC's worth of capacity.
double worst_load(const Cluster& cluster, const std::vector<std::uint32_t>& target) {
  std::vector<double> flows(cluster.links().size(), 0.0);
  for (std::uint32_t gpu = 0; gpu < target.size(); ++gpu) {
    for (const RouteHop& hop : cluster.router().route(gpu, target[gpu]))
      flows[hop.link] += hop.fraction;
  }
  double worst = 0.0;
  for (const Link& link : cluster.links()) {
    const bool network = link.kind == LinkKind::NicPort || link.kind == LinkKind::LeafSpine ||
                         link.kind == LinkKind::SpineCore;
    if (network) worst = std::max(worst, flows[link.id] / link.cables);
  }
  return worst;
}

std::vector<std::uint32_t> shifted(std::uint32_t gpus, std::uint32_t by) {
  std::vector<std::uint32_t> target(gpus);
  for (std::uint32_t i = 0; i < gpus; ++i) target[i] = (i + by) % gpus;
  return target;
}

// Does permutation traffic run at full rate?
TEST(Route, PermutationTrafficRunsAtFullRate) {
  for (const char* kind : {"fat_tree", "rail_optimized", "fat_tree3"}) {
    ClusterSpec spec = nodes_of("dgx_h100", 32, {.kind = fabric_named(kind, 32)});
    const Cluster cluster = build_cluster(spec);
    for (const std::uint32_t by : {8U, 13U, 64U, 128U, 200U}) {
      EXPECT_LE(worst_load(cluster, shifted(256, by)), 1.0 + 1e-12) << kind << " by " << by;
    }
    // A scattered permutation: multiplication by 37 modulo 257 of 1..256.
    std::vector<std::uint32_t> target(256);
    for (std::uint32_t i = 0; i < 256; ++i) target[i] = (i + 1) * 37 % 257 - 1;
    EXPECT_LE(worst_load(cluster, target), 1.0 + 1e-12) << kind;
  }
}

// Do oversubscribed uplinks carry as many flows as the ratio?
TEST(Route, OversubscribedUplinksCarryAsManyFlowsAsTheRatio) {
  const Cluster cluster = build_cluster(
      nodes_of("dgx_h100", 48, {.kind = FatTree{.radix = 32, .oversubscription = 3.0}}));
  // 24 NICs on a leaf, 8 uplinks; every node sends half-way across.
  EXPECT_NEAR(worst_load(cluster, shifted(384, 192)), 3.0, 1e-12);
}

}  // namespace
}  // namespace trainyard
