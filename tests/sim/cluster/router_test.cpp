// How routing changes what a link of the fabric is: a set of parallel links, or one cable.
#include "sim/cluster/router.hpp"

#include <gtest/gtest.h>

#include "sim/cluster/blueprint.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/cluster/fabric_paths.hpp"
#include "sim/cluster/node_paths.hpp"
#include "sim/cluster/parallel_links.hpp"

namespace trainyard {
namespace {

// Two nodes of one GPU, each on a leaf, and two spines. A leaf has two cables to each spine, which
// carry 100 GB/s together.
Cluster two_spines(Routing::Kind routing) {
  Blueprint blueprint;
  const Wire port{
      .kind = LinkKind::NicPort, .capacity = BytesPerSecond{1e11}, .nominal = BytesPerSecond{1e11}};
  Wire up = port;
  up.kind = LinkKind::LeafSpine;
  up.cables = 2;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  for (std::int32_t node = 0; node < 2; ++node) {
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node}));
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node}));
    Wire pcie = port;
    pcie.kind = LinkKind::Pcie;
    blueprint.cable(gpus.back(), nics.back(), pcie);
  }
  std::vector<DeviceId> leaves;
  for (const DeviceId nic : nics) {
    leaves.push_back(blueprint.add({.kind = DeviceKind::LeafSwitch, .node = -1}));
    blueprint.cable(nic, leaves.back(), port);
  }
  for (std::uint32_t spine = 0; spine < 2; ++spine) {
    const DeviceId id = blueprint.add({.kind = DeviceKind::SpineSwitch, .node = -1});
    for (const DeviceId leaf : leaves) blueprint.cable(leaf, id, up);
  }
  ClusterFacts facts{.name = "two spines", .nodes = 2, .gpus_per_node = 1};
  facts.routing.kind = routing;
  return {facts, std::move(blueprint).wiring(), gpus, nics};
}

std::vector<Link> links_to_spines(const Cluster& cluster) {
  std::vector<Link> links;
  for (const Link& link : cluster.links())
    if (link.kind == LinkKind::LeafSpine) links.push_back(link);
  return links;
}

// Are the links from a leaf to equal spines a set where routing is ideal? Then all of them are
// loaded equally, and the cables of a link are one link.
TEST(Router, IdealRoutingLoadsTheLinksToEqualSpinesTogether) {
  const Cluster cluster = two_spines(Routing::Kind::Ideal);
  const std::vector<Link> links = links_to_spines(cluster);
  EXPECT_EQ(links.size(), 2U * 2U * 2U) << "leaves, spines, directions";
  const ParallelLinks& sets = cluster.router().parallel_links();
  for (const Link& link : links) {
    EXPECT_EQ(sets.links(sets.of(link.id)).size(), 2U) << link.id;
    EXPECT_DOUBLE_EQ(link.capacity.value(), 1e11);
  }
}

// Is every cable a link of its own where routing hashes? A flow takes one of them, with its part of
// the capacity, and no two links are in one set.
TEST(Router, HashedRoutingTakesOneCable) {
  const Cluster cluster = two_spines(Routing::Kind::Ecmp);
  const std::vector<Link> links = links_to_spines(cluster);
  EXPECT_EQ(links.size(), 2U * 2U * 2U * 2U) << "leaves, spines, directions, cables";
  const ParallelLinks& sets = cluster.router().parallel_links();
  for (const Link& link : links) {
    EXPECT_EQ(sets.of(link.id), link.id);
    EXPECT_DOUBLE_EQ(link.capacity.value(), 0.5e11);
    EXPECT_DOUBLE_EQ(link.nominal.value(), 0.5e11);
  }
}

// Is the component of each GPU left out where all GPUs are in one?
TEST(FabricComponents, NameNoGpuWhereAllAreInOne) {
  const Cluster cluster = two_spines(Routing::Kind::Ideal);
  const ParallelLinks sets = find_parallel_links(cluster.wiring());
  const FabricPaths fabric(cluster, sets);
  const FabricComponents found = fabric_components(cluster, NodePaths(cluster), fabric);
  EXPECT_EQ(found.count, 1U);
  EXPECT_TRUE(found.of_gpu.empty());
}

// Does a load of a set put its bytes on each link of the set, and one of a single link on that
// alone? 3 bytes on both links from a leaf to the spines, and 5 on the first of them.
TEST(EveryLink, ASetIsExpandedToItsLinks) {
  const Cluster cluster = two_spines(Routing::Kind::Ideal);
  const LinkId lowest = links_to_spines(cluster).front().id;
  const StridedSpan set = cluster.router().parallel_links().links(lowest);
  ASSERT_EQ(set.size(), 2U);
  const std::vector<LinkLoad> loads{{.link = lowest, .bytes = 3.0, .parallel_count = 2},
                                    {.link = lowest, .bytes = 5.0}};
  const std::vector<LinkLoad> each = every_link(cluster, loads);
  ASSERT_EQ(each.size(), 2U);
  EXPECT_EQ(each[0].link, lowest);
  EXPECT_DOUBLE_EQ(each[0].bytes, 8.0);
  EXPECT_NE(each[1].link, lowest);
  EXPECT_DOUBLE_EQ(each[1].bytes, 3.0);
}

}  // namespace
}  // namespace trainyard
