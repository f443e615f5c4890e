// Which links can limit a flow and which cannot, on fabrics and phases small enough to compute by
// hand.
#include "sim/contention/link_limits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sim/contention/closed_phases.hpp"
#include "sim/contention/never_concurrent.hpp"
#include "sim/workload/program_analysis.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/contention/hand_shapes.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {
namespace {

// Is a stream in order, and does a dependency order two streams?
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

// Must all calls be in order? Call b follows only the first call a; the second call a may run
// concurrently with it.
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

// One group whose two flows, of 1 and 3 GB, have one link for themselves.
class TwoFlows : public testing::Test {
 protected:
  TwoFlows() {
    JointGraph joint = shapes_on(cluster_, {{{kLink, 0}}, {{kLink, 0}}}, {1.0}, {kLink});
    ShapedPhase phase;
    phase.flows = {{.shape = 0, .payload_bytes = 1e9}, {.shape = 1, .payload_bytes = 3e9}};
    joined_ = {.graph = std::make_shared<const JointGraph>(std::move(joint)),
               .traffic = {.calls = {{{.call = 0, .phases = {phase}}}}, .of_group = {0}}};
  }

  // The flows if the group is closed, or if other flows may be added.
  [[nodiscard]] std::vector<ShapedFlow> link_flows(bool closed) {
    LinkLimits limits = every_link_limits(joined_);
    Concurrency concurrency = *limits.concurrency;
    concurrency.closed = {closed};
    limits.concurrency = std::make_shared<const Concurrency>(std::move(concurrency));
    GroupTraffic traffic = joined_.traffic;
    for (ShapedFlow& link_flow : traffic.calls[0][0].phases[0].flows)
      link_flow.rate_cap_bytes_per_s = capacity();
    close_phases(cluster_, *joined_.graph, limits, traffic);
    return traffic.of(0)[0].phases[0].flows;
  }

  [[nodiscard]] double capacity() const { return cluster_.link(kLink).capacity.value(); }

  static constexpr LinkId kLink = 0;
  const Cluster cluster_ = hand_cluster({.nodes = 1});
  Joined joined_;
};

// Are all links taken as shared, from the first one on, where the order of calls is not known?
TEST_F(TwoFlows, MayShareEveryLinkInAnyOrder) {
  const LinkLimits limits = every_link_limits(joined_);
  ASSERT_EQ(limits.concurrency->links.size(), 1U);
  EXPECT_EQ(limits.concurrency->links.front(), 0U);
}

// Do the flows of a closed group end at the times of their phase? They end after 1/2 + 1/2 and 2 GB
// at 1 GB/s: 2 GB are moved when the small one ends, 4 GB when the large one does.
TEST_F(TwoFlows, OfAClosedGroupEndWhenTheirPhaseSays) {
  const std::vector<ShapedFlow> closed = link_flows(true);
  EXPECT_NEAR(closed[0].rate_cap_bytes_per_s, capacity() / 2.0, capacity() * 1e-12);
  EXPECT_NEAR(closed[1].rate_cap_bytes_per_s, capacity() * 3.0 / 4.0, capacity() * 1e-12);
  EXPECT_DOUBLE_EQ(closed[0].rate_alone.value(), capacity());
}

// Do flows stay open if others may be added?
TEST_F(TwoFlows, StayOpenWhereOthersMayCome) {
  const std::vector<ShapedFlow> open = link_flows(false);
  EXPECT_DOUBLE_EQ(open[0].rate_cap_bytes_per_s, capacity());
  EXPECT_FALSE(open[0].rate_alone.has_value());
}

// Are the groups on a link compared with each other up to 64 of them? The calls of all groups of
// two ranks follow one another on one stream, so that none meets another. With more groups they all
// count as contended, which bounds the number of pairs.
TEST(Concurrency, ComparesUpTo64GroupsOnALink) {
  const Cluster cluster = hand_cluster({.nodes = 1});
  for (const int groups : {64, 65}) {
    Workload workload = empty_workload();
    ProgramWriter program(workload, "everyone");
    for (int group = 0; group < groups; ++group)
      program.collective("sum", "slot " + std::to_string(group),
                         CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1000});
    for (const RankId rank : {RankId{0}, RankId{1}}) add_rank(workload, 0, rank);
    for (int group = 0; group < groups; ++group)
      add_group(workload, GroupKind::Data, {RankId{0}, RankId{1}},
                {"slot " + std::to_string(group)});
    const Joined joined = join(cluster, workload, RingModel(cluster));
    const LinkLimits limits = limit_links(cluster, workload, joined);
    EXPECT_EQ(limits.concurrency->links.empty(), groups == 64) << groups;
  }
}

// Is a group closed if only its own phase is concurrent? Tensor groups in nodes and data groups
// over them follow each other on one stream, so the two flows of a ring's phase share links only
// with each other.
TEST(Concurrency, AGroupIsClosedIfItSharesLinksOnlyWithinAPhase) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const Workload workload = training_step({.tensor = 4, .data = 12, .algorithm = "two_rings"});
  const Joined joined = join(cluster, workload, RingModel(cluster));
  const LinkLimits limits = limit_links(cluster, workload, joined);
  const auto closed = std::ranges::count(limits.concurrency->closed, true);
  EXPECT_GT(closed, 0);
  std::size_t open = 0;
  for (const LinkId link : joined.graph->links) {
    std::uint32_t number = limits.users->first(link);
    for (const auto& [shape, load] : limits.users->of(link)) {
      const bool contended = limits.concurrency->contended[number++] != 0;
      if (contended) ++open;
      EXPECT_FALSE(contended && limits.concurrency->closed[joined.graph->group_of_shape[shape]]);
    }
  }
  EXPECT_EQ(open == 0, limits.concurrency->links.empty());
}

}  // namespace
}  // namespace trainyard::test
