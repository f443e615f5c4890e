// What can hold a flow back and what cannot, on fabrics and phases small enough to add up by hand.
#include "sim/contention/link_limits.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "sim/contention/closed_phases.hpp"
#include "sim/workload/program_analysis.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/contention/hand_shapes.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {
namespace {

TEST(ProgramAnalysis, AStreamIsInOrderAndADependencyOrdersStreams) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = 1'000'000};
  const OpIndex first = program.collective("a", "tensor", call);
  program.collective("b", "data", call, {first});
  program.collective("c", "model", call);
  ProgramAnalysis analysis(workload);
  EXPECT_TRUE(analysis.ordered(0, 0, 0));
  EXPECT_TRUE(analysis.ordered(0, 0, 1));
  EXPECT_TRUE(analysis.ordered(0, 1, 0));
  EXPECT_FALSE(analysis.ordered(0, 0, 2));
  EXPECT_FALSE(analysis.ordered(0, 1, 2));
}

// b comes after the first a only: the second a may run beside it.
TEST(ProgramAnalysis, AllCallsMustBeInOrder) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "everyone");
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = 1'000'000};
  const OpIndex first = program.collective("a", "tensor", call);
  program.collective("a", "tensor", call);
  program.collective("b", "data", call, {first});
  ProgramAnalysis analysis(workload);
  EXPECT_FALSE(analysis.ordered(0, 0, 1));
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
  LinkLimits limits = every_link_limits(joint);
  limits.meets_others = {false, false};
  const Contention closed = close_phases(cluster, {std::move(joint), std::move(limits)});
  const std::vector<ShapedChain>& chains = closed.joint.calls_of(0)[0].phases[0].chains;
  // 2 GB are moved when the small one ends, 4 GB when the large one does.
  EXPECT_NEAR(chains[0].rate_cap_bytes_per_s, capacity / 2.0, capacity * 1e-12);
  EXPECT_NEAR(chains[1].rate_cap_bytes_per_s, capacity * 3.0 / 4.0, capacity * 1e-12);
  EXPECT_DOUBLE_EQ(chains[0].rate_alone.value(), capacity);
  EXPECT_EQ(closed.limits.users.of(0)[0].contended, 0U);
  EXPECT_EQ(closed.limits.users.of(0)[1].contended, 0U);
}

TEST(ClosedPhases, StayOpenWhereOthersMayCome) {
  const Cluster cluster = hand_cluster({.nodes = 1});
  JointGraph joint = two_chains(0);
  LinkLimits limits = every_link_limits(joint);
  limits.meets_others = {false, true};
  const Contention closed = close_phases(cluster, {std::move(joint), std::move(limits)});
  EXPECT_EQ(closed.limits.users.of(0)[0].contended, 1U);
  EXPECT_EQ(closed.limits.users.of(0)[1].contended, 1U);
  EXPECT_FALSE(closed.joint.calls_of(0)[0].phases[0].chains[0].rate_alone.has_value());
}

}  // namespace
}  // namespace trainyard::test
