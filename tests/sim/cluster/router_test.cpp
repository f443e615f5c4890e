// How routing changes what a link of the fabric is: a set of parallel links, or one cable.
#include "sim/cluster/router.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
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

// A wire of that kind with 100 GB/s.
Wire wire_of_kind(LinkKind kind) {
  return {.kind = kind, .capacity = BytesPerSecond{1e11}, .nominal = BytesPerSecond{1e11}};
}

// Are two nodes refused whose switches are not joined? Each has two GPUs on a leaf of its own, so
// the fabric has two parts, and no node is in both.
TEST(FabricComponents, NodesWithoutACommonOneAreRefused) {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  for (std::int32_t node = 0; node < 2; ++node) {
    for (std::int32_t index = 0; index < 2; ++index) {
      gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node, .index = index}));
      nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node, .index = index}));
      blueprint.cable(gpus.back(), nics.back(), wire_of_kind(LinkKind::Pcie));
    }
    blueprint.cable(gpus[gpus.size() - 2], gpus.back(), wire_of_kind(LinkKind::NvLink));
  }
  for (std::size_t node = 0; node < 2; ++node) {
    const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .node = -1});
    for (std::size_t nic = 2 * node; nic < 2 * node + 2; ++nic)
      blueprint.cable(nics[nic], leaf, wire_of_kind(LinkKind::NicPort));
  }
  const ClusterFacts facts{.name = "two islands", .nodes = 2, .gpus_per_node = 2};
  try {
    (void)Cluster(facts, std::move(blueprint).wiring(), gpus, nics);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("node 0 gpu 0 and node 1 gpu 0 cannot reach each "
                                                 "other over the fabric"));
  }
}

// Two nodes of two GPUs that only the fabric can join: NIC i of each node is on leaf i, or all are
// on the only leaf.
Cluster without_nvlink(std::size_t leaves) {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  for (std::int32_t number = 0; number < 4; ++number) {
    const std::int32_t node = number / 2;
    const std::int32_t index = number % 2;
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node, .index = index}));
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node, .index = index}));
    blueprint.cable(gpus.back(), nics.back(), wire_of_kind(LinkKind::Pcie));
  }
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    const DeviceId id = blueprint.add({.kind = DeviceKind::LeafSwitch, .node = -1});
    for (std::size_t nic = leaf; nic < nics.size(); nic += leaves)
      blueprint.cable(nics[nic], id, wire_of_kind(LinkKind::NicPort));
  }
  const ClusterFacts facts{.name = "no NVLink", .nodes = 2, .gpus_per_node = 2};
  return {facts, std::move(blueprint).wiring(), gpus, nics};
}

// May the GPUs of a node meet in the fabric alone? Where it joins all of them, they do: to their
// NIC, the leaf, the other NIC and its GPU. Rails that nothing joins leave them apart.
TEST(Router, GpusOfANodeMeetInTheFabricIfItJoinsThem) {
  EXPECT_EQ(without_nvlink(1).router().route(0, 1).size(), 4U);
  try {
    (void)without_nvlink(2);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("not every GPU of its node can reach node 0 gpu"));
  }
}

// Do GPUs reach each other over a PCIe switch where each also has a CPU, which is wired before the
// switch and leads nowhere?
TEST(NodePaths, LeadOverASwitchThatIsNotTheFirstNeighbour) {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  for (std::int32_t index = 0; index < 2; ++index) {
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = 0, .index = index}));
    const DeviceId cpu = blueprint.add({.kind = DeviceKind::Cpu, .node = 0, .index = index});
    blueprint.cable(gpus.back(), cpu, wire_of_kind(LinkKind::Pcie));
  }
  const DeviceId pcie_switch = blueprint.add({.kind = DeviceKind::PcieSwitch, .node = 0});
  for (const DeviceId gpu : gpus) blueprint.cable(gpu, pcie_switch, wire_of_kind(LinkKind::Pcie));
  const ClusterFacts facts{.name = "own CPUs", .nodes = 1, .gpus_per_node = 2};
  const Cluster cluster(facts, std::move(blueprint).wiring(), gpus, {});
  const Route route = cluster.router().route(0, 1);
  ASSERT_EQ(route.size(), 2U);
  EXPECT_EQ(cluster.link(route[0].link).to, pcie_switch);
  EXPECT_EQ(cluster.link(route[1].link).to, gpus[1]);
}

}  // namespace
}  // namespace trainyard
