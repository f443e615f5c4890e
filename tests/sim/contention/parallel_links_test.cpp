// Sets of parallel links: every route loads their members equally, and one member represents the
// set.
#include "sim/cluster/parallel_links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "sim/contention/joint_graph.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr double kExact = 1e-12;

std::size_t parallel_links_of(const Cluster& cluster) {
  const std::vector<LinkId> set =
      cluster.router().parallel_links().of_each(cluster.wiring().link_count());
  return std::set<LinkId>(set.begin(), set.end()).size();
}

// Are the links to equal spines paired? Three leaves of four nodes on two spines have 48 NVLinks,
// PCIe links and ports in each direction, and a pair of links up and a pair down for each leaf.
TEST(ParallelLinkIndex, PairsTheLinksToEqualSpines) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const ParallelLinks& parallel_links = cluster.router().parallel_links();
  std::map<LinkId, std::vector<LinkId>> members;
  std::vector<LinkId> lowest_ones;
  for (LinkId link = 0; link < cluster.links().size(); ++link) {
    members[parallel_links.of(link)].push_back(link);
    if (parallel_links.of(link) == link) lowest_ones.push_back(link);
  }
  for (const auto& [lowest, links] : members) {
    const StridedSpan told = parallel_links.links(lowest);
    EXPECT_EQ(told.size(), links.size() > 1 ? links.size() : 0);
    EXPECT_TRUE(told.empty() || std::ranges::equal(told, links, std::equal_to<>{}));
  }
  std::vector<LinkId> told;
  parallel_links.for_each_lowest({0, 1, static_cast<std::uint32_t>(cluster.links().size())},
                                 [&](LinkId link) { told.push_back(link); });
  EXPECT_EQ(told, lowest_ones);
  std::size_t pairs = 0;
  for (const auto& [lowest, links] : members) {
    EXPECT_EQ(lowest, links.front());
    const bool up_or_down = cluster.link(lowest).kind == LinkKind::LeafSpine;
    EXPECT_EQ(links.size(), up_or_down ? 2U : 1U);
    if (!up_or_down) continue;
    ++pairs;
    const bool up = cluster.device(cluster.link(lowest).from).kind == DeviceKind::LeafSwitch;
    const auto leaf = [&](LinkId id) { return up ? cluster.link(id).from : cluster.link(id).to; };
    EXPECT_EQ(leaf(links[0]), leaf(links[1]));
  }
  EXPECT_EQ(pairs, 6U);
}

// Is there no set with a slow link?
TEST(ParallelLinkIndex, HasNoSetWithASlowLink) {
  HandCluster shape{.nodes = 12};
  EXPECT_EQ(hand_cluster(shape).links().size() - parallel_links_of(hand_cluster(shape)), 6U);
  shape.speed = {{{"leaf 1", "spine 1"}, 0.5}};
  EXPECT_EQ(hand_cluster(shape).links().size(), parallel_links_of(hand_cluster(shape)));
}

// Is there no set if a hash chooses the path?
TEST(ParallelLinkIndex, HasNoSetsUnderHashedRouting) {
  const Cluster ideal = hand_cluster({.nodes = 8});
  ClusterFacts facts = ideal.facts();
  facts.routing.kind = Routing::Kind::Ecmp;
  const Cluster hashed(facts, ideal.wiring(), ideal.gpus(), ideal.nic_of_gpu());
  EXPECT_EQ(parallel_links_of(hashed), hashed.links().size());
}

// The loads of a shape on all links, with all members of parallel links.
std::map<LinkId, double> all_loads(const JointGraph& joint, std::uint32_t shape) {
  std::map<LinkId, double> loads;
  const std::vector<LinkId>& parallel_to = joint.placed->parallel->lowest;
  for (LinkId link = 0; link < parallel_to.size(); ++link) {
    for (const auto& [lowest, load] : joint.shape(shape)) {
      if (parallel_to[link] == lowest) loads[link] = joint.loads[load];
    }
  }
  return loads;
}

// Does the joint graph lose no load by parallel links?
TEST(ParallelLinkIndex, KeepsAllLoadsOfTheJointGraph) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const Workload workload =
      training_step({.tensor = 4, .data = 6, .stages = 2, .algorithm = "two_rings"});
  const RingModel communication(cluster);
  const Joined with_parallel_links = join(cluster, workload, communication);
  const Joined link_by_link = join_link_by_link(cluster, workload, communication);
  const JointGraph& bundled = *with_parallel_links.graph;
  const JointGraph& plain = *link_by_link.graph;
  EXPECT_LT(bundled.shape_loads.size(), plain.shape_loads.size());
  ASSERT_EQ(bundled.group_of_shape, plain.group_of_shape);
  for (std::uint32_t shape = 0; shape < plain.group_of_shape.size(); ++shape) {
    const auto here = all_loads(bundled, shape);
    const auto there = all_loads(plain, shape);
    ASSERT_EQ(here.size(), there.size());
    for (const auto& [link, load] : there) EXPECT_NEAR(here.at(link), load, kExact);
  }
}

// A model that sends only over the first spine.
class OneSpine final : public CommunicationModel {
 public:
  explicit OneSpine(const Cluster& cluster) : cluster_(cluster), ring_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    std::vector<Phase> phases = ring_.phases(call, gpus);
    for (Phase& phase : phases) {
      for (MultiLinkFlow& link_flow : phase.flows) {
        std::erase_if(link_flow.loads, [&](const LinkLoad& load) {
          const Link& link = cluster_.link(load.link);
          return cluster_.name(link.to) == "spine 1" || cluster_.name(link.from) == "spine 1";
        });
      }
    }
    return phases;
  }

 private:
  const Cluster& cluster_;
  RingModel ring_;
};

// Is a set used only while its members are loaded equally?
TEST(ParallelLinkIndex, UsesASetOnlyWhileItsMembersAreLoadedEqually) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const Workload workload = training_step({.tensor = 4, .data = 12});
  const Joined joined = join(cluster, workload, OneSpine(cluster));
  const std::vector<LinkId>& lowest = joined.graph->placed->parallel->lowest;
  EXPECT_EQ(lowest.size(), cluster.links().size());
  for (LinkId link = 0; link < lowest.size(); ++link) EXPECT_EQ(lowest[link], link);
}

}  // namespace
}  // namespace trainyard
