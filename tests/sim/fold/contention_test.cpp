// What can hold a flow back and what cannot, on fabrics and phases small enough to add up by hand.
#include "sim/fold/contention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/fold/closed_phases.hpp"
#include "sim/fold/dominated_links.hpp"
#include "sim/workload/call_order.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {
namespace {

TEST(CallOrder, AStreamIsInOrderAndADependencyOrdersStreams) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  const Call call{.op = CollectiveOp::AllReduce, .bytes = 1'000'000};
  const OpIndex first = program.collective("a", "tensor", call);
  program.collective("b", "data", call, {first});
  program.collective("c", "model", call);
  CallOrder order(workload);
  EXPECT_TRUE(order.ordered(0, 0, 0));
  EXPECT_TRUE(order.ordered(0, 0, 1));
  EXPECT_TRUE(order.ordered(0, 1, 0));
  EXPECT_FALSE(order.ordered(0, 0, 2));
  EXPECT_FALSE(order.ordered(0, 1, 2));
}

// b comes after the first a only: the second a may run beside it.
TEST(CallOrder, AllCallsMustBeInOrder) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  const Call call{.op = CollectiveOp::AllReduce, .bytes = 1'000'000};
  const OpIndex first = program.collective("a", "tensor", call);
  program.collective("a", "tensor", call);
  program.collective("b", "data", call, {first});
  CallOrder order(workload);
  EXPECT_FALSE(order.ordered(0, 0, 1));
}

JointGraph of_one_group(std::uint32_t shapes) {
  JointGraph joint;
  joint.traffic.resize(1);
  joint.traffic_of = {0};
  joint.first_shape = {0, shapes};
  joint.group_of_shape.assign(shapes, 0);
  joint.row_of.resize(1000);
  std::iota(joint.row_of.begin(), joint.row_of.end(), 0U);
  return joint;
}

// One link of two chains, 1 and 3 GB, and nobody else: they end after 1/2 + 1/2 and 2 GB of 1 GB/s.
JointGraph two_chains(LinkId link) {
  JointGraph joint = of_one_group(2);
  joint.shape_offsets = {0, 1, 2};
  joint.shape_loads = {{link, 0}, {link, 0}};
  joint.loads = {1.0};
  joint.links = {link};
  ShapedPhase phase;
  phase.chains = {{.shape = 0, .payload_bytes = 1e9}, {.shape = 1, .payload_bytes = 3e9}};
  joint.traffic[0].push_back({.call = 0, .phases = {phase}});
  return joint;
}

TEST(ClosedPhases, EndWhenTheirChainsEndTogether) {
  const Cluster cluster = hand_cluster({.nodes = 1});
  const double capacity = cluster.link(0).capacity.value();
  JointGraph joint = two_chains(0);
  Contention contention = all_contended(cluster, joint);
  contention.meets_others = {false, false};
  const ClosedPhases closed = close_phases(cluster, std::move(joint), std::move(contention));
  const std::vector<ShapedChain>& chains = closed.joint.calls_of(0)[0].phases[0].chains;
  // 2 GB are moved when the small one ends, 4 GB when the large one does.
  EXPECT_NEAR(chains[0].rate_cap_bytes_per_s, capacity / 2.0, capacity * 1e-12);
  EXPECT_NEAR(chains[1].rate_cap_bytes_per_s, capacity * 3.0 / 4.0, capacity * 1e-12);
  EXPECT_DOUBLE_EQ(chains[0].rate_without_company.value(), capacity);
  EXPECT_EQ(closed.contention.crossings.of(0)[0].contended, 0U);
  EXPECT_EQ(closed.contention.crossings.of(0)[1].contended, 0U);
}

TEST(ClosedPhases, StayOpenWhereOthersMayCome) {
  const Cluster cluster = hand_cluster({.nodes = 1});
  JointGraph joint = two_chains(0);
  Contention contention = all_contended(cluster, joint);
  contention.meets_others = {false, true};
  const ClosedPhases closed = close_phases(cluster, std::move(joint), std::move(contention));
  EXPECT_EQ(closed.contention.crossings.of(0)[0].contended, 1U);
  EXPECT_EQ(closed.contention.crossings.of(0)[1].contended, 1U);
  EXPECT_FALSE(closed.joint.calls_of(0)[0].phases[0].chains[0].rate_without_company.has_value());
}

// Shapes given as links with their loads, all of one group.
JointGraph shapes_on(const std::vector<std::vector<ShapeLoad>>& shapes, std::vector<double> loads,
                     std::vector<LinkId> links) {
  JointGraph joint = of_one_group(static_cast<std::uint32_t>(shapes.size()));
  joint.shape_offsets = {0};
  for (const std::vector<ShapeLoad>& shape : shapes) {
    joint.shape_loads.insert(joint.shape_loads.end(), shape.begin(), shape.end());
    joint.shape_offsets.push_back(joint.shape_loads.size());
  }
  joint.loads = std::move(loads);
  joint.links = std::move(links);
  joint.bundle_size.assign(1000, 1);
  return joint;
}

// The way of a message from node to node: GPU, NIC, leaf, NIC, GPU over 64, 50, 50 and 64 GB/s.
class DominatedLinks : public testing::Test {
 protected:
  DominatedLinks() {
    for (const RouteHop& hop : cluster_.router().route(0, 4)) way_.push_back(hop.link);
  }

  [[nodiscard]] std::vector<LinkId> dominated(const JointGraph& joint,
                                              std::vector<LinkId> slack = {}) const {
    std::vector<bool> is_slack(cluster_.links().size(), false);
    for (const LinkId link : slack) is_slack[link] = true;
    const std::vector<LinkId> stands =
        dominating_links(cluster_, joint, LinkCrossings(joint), is_slack);
    std::vector<LinkId> result;
    for (LinkId link = 0; link < stands.size(); ++link)
      if (stands[link] != link) result.push_back(link);
    return result;
  }

  [[nodiscard]] std::vector<LinkId> sorted(std::vector<LinkId> links) const {
    std::ranges::sort(links);
    return links;
  }

  Cluster cluster_ = hand_cluster({.nodes = 2});
  std::vector<LinkId> way_;
};

// The two ports join at a leaf, where other ways part.
TEST_F(DominatedLinks, ThePortStandsForTheWayToIt) {
  ASSERT_EQ(way_.size(), 4U);
  const std::vector<LinkId> links = sorted(way_);
  std::vector<ShapeLoad> all;
  for (const LinkId link : links) all.push_back({link, 0});
  EXPECT_EQ(dominated(shapes_on({all, all}, {1.0}, links)), sorted({way_[0], way_[3]}));
}

TEST_F(DominatedLinks, AChainOnOneOfThemAloneTellsThemApart) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> both = {{pair[0], 0}, {pair[1], 0}};
  EXPECT_EQ(dominated(shapes_on({both}, {1.0}, pair)), std::vector<LinkId>{way_[0]});
  EXPECT_TRUE(dominated(shapes_on({both, {{way_[1], 0}}}, {1.0}, pair)).empty());
  EXPECT_TRUE(dominated(shapes_on({both, {{way_[0], 0}}}, {1.0}, pair)).empty());
}

TEST_F(DominatedLinks, SoDoesAnotherLoad) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> uneven = {{pair[0], 0}, {pair[1], 1}};
  EXPECT_TRUE(dominated(shapes_on({uneven}, {1.0, 0.5}, pair)).empty());
}

TEST_F(DominatedLinks, ASlackLinkStandsForNone) {
  const std::vector<LinkId> pair = sorted({way_[0], way_[1]});
  const std::vector<ShapeLoad> both = {{pair[0], 0}, {pair[1], 0}};
  EXPECT_TRUE(dominated(shapes_on({both}, {1.0}, pair), {way_[1]}).empty());
}

}  // namespace
}  // namespace trainyard::test
