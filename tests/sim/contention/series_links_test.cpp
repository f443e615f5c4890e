// Links in series of which one implies the others: on hand-written paths, and in whole steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/contention/redundant_links.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/contention/hand_shapes.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {
namespace {

// The path of a message from node to node: GPU, NIC, leaf, NIC, GPU over 64, 50, 50 and 64 GB/s.
class SeriesLinks : public testing::Test {
 protected:
  SeriesLinks() {
    for (const RouteHop& hop : cluster_.router().route(0, 4)) way_.push_back(hop.link);
  }

  [[nodiscard]] std::vector<LinkId> implied(const JointGraph& joint,
                                            std::vector<LinkId> redundant = {}) const {
    std::vector<bool> is_redundant(cluster_.links().size(), false);
    for (const LinkId link : redundant) is_redundant[link] = true;
    const std::vector<LinkId> implied_by =
        implied_links(cluster_, series_neighbours(cluster_, joint, LinkUsers(joint)), is_redundant);
    std::vector<LinkId> result;
    for (LinkId link = 0; link < implied_by.size(); ++link)
      if (implied_by[link] != link) result.push_back(link);
    return result;
  }

  [[nodiscard]] std::vector<LinkId> sorted(std::vector<LinkId> links) const {
    std::ranges::sort(links);
    return links;
  }

  Cluster cluster_ = hand_cluster({.nodes = 2});
  std::vector<LinkId> way_;
};

// Does the port imply the links to it? The two ports meet at a leaf, where other paths branch off.
TEST_F(SeriesLinks, ThePortImpliesTheWayToIt) {
  ASSERT_EQ(way_.size(), 4U);
  const std::vector<LinkId> links = sorted(way_);
  std::vector<ShapeLoad> all;
  for (const LinkId link : links) all.push_back({link, 0});
  EXPECT_EQ(implied(shapes_on(cluster_, {all, all}, {1.0}, links)), sorted({way_[0], way_[3]}));
}

// Does a flow on only one of the links prevent the implication?
TEST_F(SeriesLinks, AChainOnOneOfThemAloneTellsThemApart) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> both = {{pair[0], 0}, {pair[1], 0}};
  EXPECT_EQ(implied(shapes_on(cluster_, {both}, {1.0}, pair)), std::vector<LinkId>{way_[0]});
  EXPECT_TRUE(implied(shapes_on(cluster_, {both, {{way_[1], 0}}}, {1.0}, pair)).empty());
  EXPECT_TRUE(implied(shapes_on(cluster_, {both, {{way_[0], 0}}}, {1.0}, pair)).empty());
}

// Does a different load prevent the implication?
TEST_F(SeriesLinks, SoDoesAnotherLoad) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> uneven = {{pair[0], 0}, {pair[1], 1}};
  EXPECT_TRUE(implied(shapes_on(cluster_, {uneven}, {1.0, 0.5}, pair)).empty());
}

// Does a redundant link imply none?
TEST_F(SeriesLinks, ARedundantLinkImpliesNone) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> both = {{pair[0], 0}, {pair[1], 0}};
  EXPECT_TRUE(implied(shapes_on(cluster_, {both}, {1.0}, pair), {way_[1]}).empty());
}

// Are the neighbours of all links found, where they are looked for 4096 links at a time? Around a
// leaf all GPUs but the first receive through a port and PCIe, and the first has PCIe alone: 4097
// links, whose last one is the port of the last of 2048 pairs.
TEST(SeriesNeighbours, AreFoundOfTheLastLinkToo) {
  constexpr std::size_t kGpus = 2049;
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(kGpus); ++node) {
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node}));
    gpus.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node}));
    blueprint.cable(gpus.back(), nics.back(),
                    {.kind = LinkKind::Pcie, .capacity = BytesPerSecond{64e9}});
  }
  const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch});
  for (const DeviceId nic : nics)
    blueprint.cable(nic, leaf, {.kind = LinkKind::NicPort, .capacity = BytesPerSecond{50e9}});
  const Cluster cluster({.nodes = kGpus, .gpus_per_node = 1}, std::move(blueprint).wiring(), gpus,
                        nics);
  std::vector<LinkId> links;
  for (LinkId id = 0; id < cluster.links().size(); ++id) {
    const Link link = cluster.link(id);
    const bool received = cluster.device(link.to).kind == DeviceKind::Gpu || link.from == leaf;
    if (received && link.to != nics.front()) links.push_back(id);
  }
  ASSERT_EQ(links.size(), 4097U);
  std::vector<ShapeLoad> all;
  for (const LinkId link : links) all.push_back({link, 0});
  const JointGraph joint = shapes_on(cluster, {all}, {1.0}, links);
  const SeriesNeighbours found = series_neighbours(cluster, joint, LinkUsers(joint));
  EXPECT_EQ(found.size(), 2048U);
  EXPECT_TRUE(std::ranges::any_of(
      found, [&](const SeriesNeighbour& pair) { return pair.link == links.back(); }));
}

// The links that others imply, in a step of tensor groups within nodes and data groups between
// them.
std::vector<Link> implied_links(const Cluster& cluster, const CommunicationModel& communication) {
  const Workload workload = training_step({.tensor = 4, .data = 12});
  const Joined joined = join(cluster, workload, communication);
  const LinkLimits limits = limit_links(cluster, workload, joined);
  std::vector<Link> implied;
  for (const LinkId link : joined.graph->links) {
    if (limits.implied_by[link] == link) continue;
    EXPECT_TRUE(limits.redundant[link]);
    implied.push_back(cluster.link(link));
  }
  return implied;
}

// Are implied links found in a whole step? GPU to NIC (64 GB/s) and NIC to leaf (50 GB/s), in both
// directions, for each of 48 GPUs.
TEST_F(SeriesLinks, AreFoundInAWholeStep) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const std::vector<Link> implied = implied_links(cluster, RingModel(cluster));
  EXPECT_EQ(implied.size(), 96U);
  for (const Link& link : implied) EXPECT_EQ(link.kind, LinkKind::Pcie);
}

// Does the narrowest link imply the others? The port has 50 GB/s behind 20 GB/s of PCIe on the way
// out; on the way in the port stays the narrowest.
TEST_F(SeriesLinks, TheNarrowestImpliesTheOthers) {
  HandCluster shape{.nodes = 12};
  shape.speed = {{{"node 0 gpu 1", "node 0 nic 1"}, 0.3125}};
  const Cluster cluster = hand_cluster(shape);
  std::size_t ports = 0;
  for (const Link& link : implied_links(cluster, RingModel(cluster))) {
    if (link.kind != LinkKind::NicPort) continue;
    ++ports;
    EXPECT_EQ(cluster.name(link.from), "node 0 nic 1");
  }
  EXPECT_EQ(ports, 1U);
}

// A model with paths that begin and end at NICs.
class FromNics final : public CommunicationModel {
 public:
  explicit FromNics(const Cluster& cluster) : cluster_(cluster), ring_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    std::vector<Phase> phases = ring_.phases(call, gpus);
    for (Phase& phase : phases)
      for (MultiLinkFlow& link_flow : phase.flows)
        std::erase_if(link_flow.loads, [&](const LinkLoad& load) {
          return cluster_.link(load.link).kind == LinkKind::Pcie;
        });
    return phases;
  }

 private:
  const Cluster& cluster_;
  RingModel ring_;
};

// Is nothing implied if paths begin at a NIC?
TEST_F(SeriesLinks, AreNoneWhereWaysBeginAtANic) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  EXPECT_TRUE(implied_links(cluster, FromNics(cluster)).empty());
}

}  // namespace
}  // namespace trainyard::test
