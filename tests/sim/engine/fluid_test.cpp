// The fluid network against results computed by hand (oracles 22, 25, 30).
#include <gtest/gtest.h>

#include "sim/engine/link_use.hpp"
#include "tests/sim/engine/builders.hpp"

namespace trainyard::test {
namespace {

constexpr double kGB = 1e9;

void expect_times(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t index = 0; index < actual.size(); ++index) {
    EXPECT_NEAR(actual[index], expected[index], kAgreement * expected[index])
        << "transfer " << index;
  }
}

// Do two flows share a link, and does the longer one speed up at the end?
TEST(Fluid, TwoFlowsOnOneLinkShareItAndTheLongerSpeedsUp) {  // oracle 22 (a)
  const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 10 * kGB}})},
                                           {0.0, link_flow({{0, 20 * kGB}})}};
  expect_times(ends_of(*make_engine("simgrid"), {10 * kGB}, transfers), {2.0, 3.0});
  expect_times(ends_of(*make_engine("ideal"), {10 * kGB}, transfers), {1.0, 2.0});
}

// Are the rates eight, two and two (oracle 22 (b))? Sizes in the ratio of the rates end together
// after 1 s.
TEST(Fluid, RatesAreEightTwoTwo) {
  const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 8 * kGB}})},
                                           {0.0, link_flow({{0, 2 * kGB}, {1, 2 * kGB}})},
                                           {0.0, link_flow({{1, 2 * kGB}})}};
  expect_times(ends_of(*make_engine("simgrid"), {10 * kGB, 4 * kGB}, transfers), {1.0, 1.0, 1.0});
}

// Does a dumbbell give each of n flows an n-th?
TEST(Fluid, ADumbbellGivesEachOfNFlowsAnNth) {  // oracle 22 (c)
  std::vector<Transfer> transfers;
  for (LinkId n = 1; n <= 7; ++n)
    transfers.push_back({0.0, link_flow({{0, 1 * kGB}, {n, 1 * kGB}})});
  expect_times(ends_of(*make_engine("simgrid"), std::vector<double>(8, 7 * kGB), transfers),
               std::vector<double>(7, 1.0));
}

// Does a later flow halve the rest of the earlier one?
TEST(Fluid, ALaterFlowHalvesTheRestOfTheEarlier) {  // oracle 22 (d)
  const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 10 * kGB}})},
                                           {0.5, link_flow({{0, 10 * kGB}})}};
  expect_times(ends_of(*make_engine("simgrid"), {10 * kGB}, transfers), {1.5, 2.0});
}

// Does the latency precede the bytes?
TEST(Fluid, LatencyComesBeforeTheBytes) {  // oracle 30: 100 kB, 1 Mb/s, 10 ms
  for (const EngineEntry& entry : engines()) {
    expect_times(ends_of(*entry.make(), {125e3}, {{0.0, link_flow({{0, 100e3}}), 0.01}}), {0.81});
  }
}

// Does latency not change the shares? With latency on the links SimGrid shares in inverse
// proportion to it; our links have none (decision D4).
TEST(Fluid, LatencyDoesNotChangeTheShares) {
  for (const auto& [first, second] : {std::pair{1e-6, 10e-6}, std::pair{0.0, 1e-6}}) {
    const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 1 * kGB}}), first},
                                             {0.0, link_flow({{0, 1 * kGB}}), second}};
    const double apart = second - first;
    // The first flow runs alone for `apart`, then both share; the second has as much left at the
    // end.
    const std::vector<double> ends = ends_of(*make_engine("simgrid"), {1 * kGB}, transfers);
    expect_times(ends, {first + apart + 2.0 * (1.0 - apart), first + 2.0});
    EXPECT_NEAR(ends[1] - ends[0], apart, 1e-9);
  }
}

// Does a rate cap leave the rest to the others?
TEST(Fluid, ARateCapLeavesTheRestToOthers) {
  const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 2 * kGB}}, 2 * kGB)},
                                           {0.0, link_flow({{0, 8 * kGB}})}};
  expect_times(ends_of(*make_engine("simgrid"), {10 * kGB}, transfers), {1.0, 1.0});
  expect_times(ends_of(*make_engine("ideal"), {10 * kGB}, transfers), {1.0, 0.8});
}

// Does a multi-link flow move at the pace of its tightest link?
TEST(Fluid, AMultiLinkFlowMovesAtThePaceOfItsTightestLink) {
  // 3 GB on link 0 and 6 GB on link 1, both of 10 GB/s, take 0.6 s alone: link 1 limits the flow.
  const Transfer uneven{0.0, link_flow({{0, 3 * kGB}, {1, 6 * kGB}})};
  for (const EngineEntry& entry : engines()) {
    expect_times(ends_of(*entry.make(), {10 * kGB, 10 * kGB}, {uneven}), {0.6});
  }
  // With a plain flow of 3 GB on link 0: x / 2 + x = 10, x = 20/3 GB/s of payload each, until the
  // plain one ends after 0.45 s; the 3 GB of payload left then move at 10 GB/s.
  expect_times(ends_of(*make_engine("simgrid"), {10 * kGB, 10 * kGB},
                       {uneven, {0.0, link_flow({{0, 3 * kGB}})}}),
               {0.75, 0.45});
}

// Is more capacity at the only bottleneck never slower?
TEST(Fluid, MoreCapacityAtTheOneBottleneckIsNeverSlower) {  // oracle 25
  double last = kNoCap;
  for (double capacity = 1 * kGB; capacity < 64 * kGB; capacity *= 1.7) {
    std::vector<Transfer> transfers;
    for (LinkId n = 1; n <= 5; ++n) {
      transfers.push_back({0.1 * n, link_flow({{0, 1.3 * kGB * n}, {n, 1.3 * kGB * n}})});
    }
    const Timeline timeline = transfers_script({capacity, 99e9, 99e9, 99e9, 99e9, 99e9}, transfers)
                                  .run(*make_engine("simgrid"));
    EXPECT_LT(timeline.makespan_s, last);
    last = timeline.makespan_s;
  }
}

// Do many messages not drift? Three series of messages share one link while all are alive, so each
// has a third of it whatever the message sizes of the others are. With SimGrid's own precision of 1
// ns, close end times would merge and drift.
TEST(Fluid, ManyMessagesDoNotDrift) {
  // slow: the resolution of dates is that of SimGrid's late clock
  constexpr double kCapacity = 1e7;
  constexpr int kMessages = 20000;
  const std::vector<double> sizes = {1000.0, 1618.0, 2718.0};
  Script script({kCapacity});
  for (const double size : sizes) {
    const auto call = script.call(CollectiveOp::SendRecv, {phase(0.0, {link_flow({{0, size}})})});
    const auto sender = script.program("sender");
    const auto receiver = script.program("receiver");
    for (int message = 0; message < kMessages; ++message) {
      script.communicate(sender, OpKind::Send, 0, call);
      script.communicate(receiver, OpKind::Recv, 0, call);
    }
    const RankId from = script.rank(sender);
    script.group({{from, 0}, {script.rank(receiver), 0}});
  }
  const Timeline timeline = script.run(*make_engine("simgrid"));
  for (std::size_t flow = 0; flow < sizes.size(); ++flow) {
    const double shared_until = 3.0 * kMessages * sizes[0] / kCapacity;
    const std::vector<double>& ends = timeline.classes[2 * flow].end_s;
    for (int message = 0; message < kMessages; ++message) {
      const double expected = 3.0 * (message + 1) * sizes[flow] / kCapacity;
      if (expected > shared_until) break;
      ASSERT_NEAR(ends[static_cast<std::size_t>(message)], expected, kAgreement * shared_until);
    }
  }
  const double all = kMessages * (sizes[0] + sizes[1] + sizes[2]) / kCapacity;
  EXPECT_NEAR(timeline.makespan_s, all, kAgreement * all);
}

// Do the ends of flows have the same bits after a run of 11 days in the same process? SimGrid's
// clock is static; dates that begin at 1e6 s would be 1e-10 s apart.
TEST(Fluid, ARunDoesNotDependOnEarlierRuns) {
  const std::vector<Transfer> some = {{0.0, link_flow({{0, 10 * kGB}, {1, 10 * kGB}})},
                                      {0.1, link_flow({{0, 20 * kGB}})},
                                      {0.3, link_flow({{1, 5 * kGB}})}};
  Script shared = transfers_script({3 * kGB, 7 * kGB}, some);
  Script days = transfers_script({1000.0}, {{0.0, link_flow({{0, kGB}})}});
  const auto engine = simgrid_without_components();
  const auto ends = [&] {
    std::vector<double> result;
    for (const FlowSpan& flow : shared.run(*engine, shared.fold_it(false)).flows)
      result.push_back(flow.end_s);
    return result;
  };
  const std::vector<double> before = ends();
  ASSERT_EQ(before.size(), some.size());
  const Timeline long_run = days.run(*engine, days.fold_it(false));
  EXPECT_NEAR(long_run.makespan_s, 1e6, 1e-3);
  EXPECT_EQ(long_run.counters.activities, 1U);
  EXPECT_EQ(ends(), before);
}

// Do links report bytes, time in use and peak?
TEST(Fluid, LinksReportBytesTimeInUseAndPeak) {
  const std::vector<Transfer> transfers = {{0.0, link_flow({{0, 10 * kGB}, {1, 10 * kGB}})},
                                           {0.0, link_flow({{0, 20 * kGB}})},
                                           {5.0, link_flow({{0, 5 * kGB}}, 4 * kGB)}};
  Script script = transfers_script({10 * kGB, 20 * kGB}, transfers);
  const Partition partition = script.fold_it(false);
  for (const auto& engine : {make_engine("simgrid"), simgrid_without_components()}) {
    const Timeline timeline = script.run(*engine, partition);
    ASSERT_EQ(timeline.links.size(), 2U);
    EXPECT_NEAR(timeline.links[0].bytes, 35 * kGB, 1e-3);
    EXPECT_NEAR(timeline.links[0].busy_s, 3.0 + 1.25, 1e-9);
    EXPECT_NEAR(timeline.links[0].peak_utilisation, 1.0, 1e-9);
    EXPECT_NEAR(timeline.links[1].bytes, 10 * kGB, 1e-3);
    EXPECT_NEAR(timeline.links[1].busy_s, 2.0, 1e-9);
    EXPECT_NEAR(timeline.links[1].peak_utilisation, 0.25,
                1e-9);  // 5 of 20 GB/s while two share link 0
    ASSERT_EQ(timeline.flows.size(), 3U);
    EXPECT_NEAR(timeline.flows[2].end_s, 6.25, 1e-9);
  }
}

// Does a flow that follows another begin at the very instant at which that one ends? Link 0 is
// shared by a long flow and, one after the other, by 50 of 1 to 1.5 GB. While all of them run, the
// long flow has half of link 0, so it never fills more than half of link 1. It ends after 8 s, when
// the others have moved 40 of their 52 GB.
TEST(Fluid, AFlowThatFollowsAnotherLeavesNoTimeInBetween) {
  Script script({10 * kGB, 10 * kGB});
  const auto add = [&](const std::vector<MultiLinkFlow>& flows) {
    const auto sender = script.program("sender");
    const auto receiver = script.program("receiver");
    for (const MultiLinkFlow& flow : flows) {
      const auto call = script.call(CollectiveOp::SendRecv, {phase(0.0, {flow})});
      script.communicate(sender, OpKind::Send, 0, call);
      script.communicate(receiver, OpKind::Recv, 0, call);
    }
    const RankId from = script.rank(sender);
    script.group({{from, 0}, {script.rank(receiver), 0}});
  };
  std::vector<MultiLinkFlow> series;
  for (int number = 2; number < 52; ++number)
    series.push_back(link_flow({{0, kGB * (1.0 + 1.0 / number)}}));
  add({link_flow({{0, 40 * kGB}, {1, 40 * kGB}})});
  add(series);
  for (const auto& engine : {make_engine("simgrid"), simgrid_without_components()}) {
    const Timeline timeline = script.run(*engine);
    EXPECT_NEAR(timeline.classes[0].end_s[0], 8.0, 1e-9);
    EXPECT_NEAR(timeline.links[1].peak_utilisation, 0.5, 1e-9);
  }
}

// Does a transfer that takes no time have bytes, but neither time in use nor a peak?
TEST(LinkUseOfFlows, ATransferWithoutDurationHasBytesAlone) {
  const Cluster cluster = star_cluster({10 * kGB});
  Partition partition;
  partition.links = {{.representative = 0}};
  partition.flows = {{.payload_bytes = 100.0, .weights = {{.link_class = 0, .contended = false}}}};
  const std::vector<FlowSpan> flows{{.flow_class = 0, .start_s = 1.0, .end_s = 1.0}};
  const std::vector<LinkUse> use =
      link_use(cluster, partition, flows, std::vector<LinkUse>(partition.links.size()));
  ASSERT_EQ(use.size(), 1U);
  EXPECT_EQ(use[0].bytes, 100.0);
  EXPECT_EQ(use[0].busy_s, 0.0);
  EXPECT_EQ(use[0].peak_utilisation, 0.0);
}

}  // namespace
}  // namespace trainyard::test
