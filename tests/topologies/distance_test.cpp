// Isomorphic switches share distances, and the NICs of a leaf share trunks: are routes still the
// shortest, and the same at every request?
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

bool is_switch(const Cluster& cluster, DeviceId id) {
  const DeviceKind kind = cluster.device(id).kind;
  return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
         kind == DeviceKind::CoreSwitch;
}

// Number of links from the NIC to every device, breadth first through switches alone.
std::vector<std::uint32_t> links_from(const Cluster& cluster, DeviceId nic) {
  std::vector<std::uint32_t> links(cluster.device_count(), kFar);
  std::vector<DeviceId> queue{nic};
  links[nic] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const DeviceId here = queue[next];
    for (const Link link : cluster.links_from(here)) {
      const bool cabled = is_switch(cluster, link.from) || is_switch(cluster, link.to);
      const bool leads_on = here == nic || is_switch(cluster, here);
      if (!cabled || link.kind == LinkKind::NvLink || !leads_on || links[link.to] != kFar) continue;
      links[link.to] = links[here] + 1;
      queue.push_back(link.to);
    }
  }
  return links;
}

// The number of fabric cables that a byte of the route crosses.
double cables_of(const Cluster& cluster, const Route& route) {
  double sum = 0.0;
  for (const RouteHop& hop : route) {
    const Link& link = cluster.link(hop.link);
    if (link.kind == LinkKind::NvLink) continue;
    if (is_switch(cluster, link.from) || is_switch(cluster, link.to)) sum += hop.fraction;
  }
  return sum;
}

void expect_shortest(const Cluster& cluster) {
  const auto gpus = static_cast<std::uint32_t>(cluster.gpus().size());
  ASSERT_EQ(gpus, 12U * 8U);
  std::size_t routes = 0;
  for (std::uint32_t a = 0; a < gpus; a += 8) {
    const std::vector<std::uint32_t> links = links_from(cluster, cluster.nic_of_gpu()[a]);
    for (std::uint32_t b = a % 3; b < gpus; b += 3) {
      if (a / 8 == b / 8) continue;
      const std::uint32_t rail_b = b - b % 8;  // on the same rail, where rails are separate
      const DeviceId nic = cluster.nic_of_gpu()[rail_b];
      ASSERT_NE(links[nic], kFar);
      ASSERT_NEAR(cables_of(cluster, cluster.router().route(a, rail_b)), links[nic], 1e-9)
          << a << " to " << rail_b;
      ++routes;
    }
  }
  // From each node to every third GPU, but for the three of the node itself.
  EXPECT_EQ(routes, 12U * (32U - 3U));
}

ClusterSpec small(const std::string& kind) {
  return nodes_of("dgx_h100", 12, {.kind = fabric_named(kind, 16)});
}

class Distance : public testing::TestWithParam<std::string> {};

// Is every route the shortest?
TEST_P(Distance, IsTheShortest) { expect_shortest(build_cluster(small(GetParam()))); }

// Is every route the shortest next to a dead cable? The leaf at the dead cable is isomorphic to no
// other, and the paths to it differ from those to its pod.
TEST_P(Distance, IsTheShortestBesideADeadCable) {
  ClusterSpec spec = small(GetParam());
  const Cluster whole = build_cluster(spec);
  for (const Link& link : whole.links()) {
    if (link.kind != LinkKind::LeafSpine) continue;
    spec.faults = {{.from = whole.name(link.from), .to = whole.name(link.to)}};
    break;
  }
  ASSERT_EQ(spec.faults.size(), 1U);
  expect_shortest(build_cluster(spec));
}

INSTANTIATE_TEST_SUITE_P(FatTrees, Distance,
                         testing::Values("fat_tree", "fat_tree3", "rail_optimized"),
                         [](const auto& instance) { return instance.param; });

// Is a trunk the same when it is requested a second time? Between all leaves of two halves there
// are more trunks than the cache holds.
TEST(Trunk, IsTheSameWhenItIsAskedForAgain) {
  const ClusterSpec spec = nodes_of("dgx_h100", 512, {.kind = FatTree3{}});
  const Cluster busy = build_cluster(spec);
  const Cluster fresh = build_cluster(spec);
  constexpr std::uint32_t kHalf = 2048;
  const auto equal = [](const Route& a, const Route& b) {
    return std::ranges::equal(a, b, [](const RouteHop& x, const RouteHop& y) {
      return x.link == y.link && x.fraction == y.fraction;
    });
  };
  const Route first = busy.router().route(0, kHalf + 8);
  std::size_t hops = 0;
  for (std::uint32_t a = 0; a < kHalf; a += 32) {
    for (std::uint32_t b = kHalf; b < 2 * kHalf; b += 32)
      hops += busy.router().route(a, b).size() + busy.router().route(b, a).size();
  }
  ASSERT_GT(hops, std::size_t{1} << 20U);
  EXPECT_TRUE(equal(busy.router().route(0, kHalf + 8), first));
  EXPECT_TRUE(equal(fresh.router().route(0, kHalf + 8), first));
  // The route between other NICs of the same leaves has the same fractions: only its first and
  // last links differ.
  const Route sideways = fresh.router().route(1, kHalf + 9);
  ASSERT_EQ(sideways.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(sideways[i].fraction, first[i].fraction) << i;
}

}  // namespace
}  // namespace trainyard
