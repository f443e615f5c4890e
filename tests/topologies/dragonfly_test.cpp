// Dragonfly: the published sizes, minimal routes, and the cables between two groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster/fabric_figures.hpp"
#include "tests/topologies/one_gpu_node.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

FabricSpec dragonfly(std::uint32_t radix) { return {.kind = Dragonfly{.radix = radix}}; }

// Are the balanced sizes the published ones? Kim et al. (ISCA'08): p = 4, a = 8, h = 4 make N = a p
// (a h + 1) = 1056 endpoints of 15-port routers.
TEST(Dragonfly, BalancedSizesArePublishedOnes) {
  const FabricCount count = count_fabric(build_cluster(one_gpu_nodes(1056, dragonfly(15))));
  EXPECT_EQ(count.leaves, 33U * 8U);
  EXPECT_EQ(count.local_cables, 33U * (8U * 7U / 2U));
  EXPECT_EQ(count.global_cables, 33U * 32U / 2U);
  const std::string text =
      complaint([] { (void)build_cluster(one_gpu_nodes(1057, dragonfly(15))); });
  EXPECT_THAT(text, HasSubstr("/nodes: 1057 nodes do not fit"));
  EXPECT_THAT(text, HasSubstr("hold 1056"));
}

// Are routers without the ports refused?
TEST(Dragonfly, RefusesRoutersWithoutThePorts) {
  const FabricSpec fabric{.kind = Dragonfly{.radix = 16, .nics_per_router = 8}};
  const std::string text = complaint([&] { (void)build_cluster(one_gpu_nodes(64, fabric)); });
  EXPECT_THAT(text, HasSubstr("/fabric/radix"));
  EXPECT_THAT(text, HasSubstr("needs 31 ports and has 16"));
}

// Are routes minimal? They are local, global, local at most: between groups every byte crosses
// exactly one global cable.
TEST(Dragonfly, RoutesAreMinimal) {
  const Cluster cluster = build_cluster(one_gpu_nodes(300, dragonfly(15)));
  for (std::uint32_t a = 0; a < 300; a += 7) {
    for (std::uint32_t b = 0; b < 300; b += 11) {
      double local = 0.0;
      double global = 0.0;
      for (const RouteHop& hop : cluster.router().route(a, b)) {
        const LinkKind kind = cluster.link(hop.link).kind;
        local += kind == LinkKind::Local ? hop.fraction : 0.0;
        global += kind == LinkKind::Global ? hop.fraction : 0.0;
      }
      const bool same_group = a / 32 == b / 32;
      EXPECT_NEAR(global, same_group ? 0.0 : 1.0, 1e-12) << a << " to " << b;
      EXPECT_LE(local, (same_group ? 1.0 : 2.0) + 1e-12) << a << " to " << b;
    }
  }
}

// Is the bisection of two groups their global cables? Two groups of 8 routers share all of their 8
// x h global cables.
TEST(Dragonfly, BisectionOfTwoGroupsIsTheirGlobalCables) {
  const FabricSpec fabric{.kind = Dragonfly{.radix = 15, .global_links = 1}};
  const Cluster cluster = build_cluster(one_gpu_nodes(64, fabric));
  EXPECT_EQ(count_fabric(cluster).global_cables, 8U);
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster).value(), 8 * 48.5e9);
}

// Do neighbours have one hop, and groups three?
TEST(Dragonfly, NeighboursHaveOneHopAndGroupsThree) {
  const Cluster cluster = build_cluster(one_gpu_nodes(1056, dragonfly(15)));
  const double hop = 5e-7;
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 1).value(), 0.0);  // one router
  EXPECT_DOUBLE_EQ(cluster.latency().extra(0, 4).value(), hop);  // another of the group
  double most = 0.0;
  for (std::uint32_t b = 32; b < 1056; ++b) {
    most = std::max(most, cluster.latency().extra(0, b).value());
  }
  EXPECT_DOUBLE_EQ(most, 3 * hop);
}

// Does the default shape carry the rails of nodes with several NICs? Of 16 nodes with four NICs,
// each NIC reaches its rail of the next node through one router, without a cable between routers.
TEST(Dragonfly, RailsOfNeighboursStayOnOneRouter) {
  NodeSpec node = one_gpu_node();
  node.gpus = node.nics = 4;
  const Cluster cluster =
      build_cluster({.node = node, .nodes = 16, .fabric = {.kind = Dragonfly{}}});
  std::size_t hops = 0;
  for (std::uint32_t gpu = 0; gpu < 64; ++gpu) {
    for (const RouteHop& hop : cluster.router().route(gpu, (gpu + 4) % 64)) {
      EXPECT_NE(cluster.link(hop.link).kind, LinkKind::Local) << gpu;
      ++hops;
    }
  }
  EXPECT_GE(hops, 2U * 64U);
  EXPECT_EQ(count_fabric(cluster).leaves, 32U) << "one group";
}

}  // namespace
}  // namespace trainyard
