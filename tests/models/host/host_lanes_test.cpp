// The host's lane of a lowered step: it issues kernel by kernel and waits where the framework does.
#include <gtest/gtest.h>

#include "models/host.hpp"
#include "tests/models/lower/step.hpp"

namespace trainyard {
namespace {

using namespace test;

const HostCosts kHost{.name = {},
                      .forward_kernel = Seconds{4.0},
                      .backward_kernel = Seconds{2.0},
                      .collective = Seconds{8.0},
                      .synchronize = Seconds{16.0},
                      .kernels = {}};

double issue_seconds(const Workload& workload, const Operation& op) {
  if (op.kind != OpKind::Compute) return 8.0;
  return kHost.seconds(workload.kernels[op.payload], op.part).value();
}

Timeline replay_with_hosts(const Workload& workload, const std::vector<HostLane>& hosts,
                           double kernel_s, bool folded) {
  const auto gpus = static_cast<std::uint32_t>(workload.ranks.size());
  const Cluster cluster = testing::make_cluster({.nodes = 1, .gpus = gpus});
  const CallModel communication = free_model();
  const Partition partition = fold(cluster, workload, communication, {.enabled = folded});
  const std::vector<double> seconds(workload.kernels.size(), kernel_s);
  return make_engine("ideal")->run({.cluster = cluster,
                                    .workload = workload,
                                    .partition = partition,
                                    .kernel_seconds = seconds,
                                    .progress = {},
                                    .compute_loss = {},
                                    .hosts = hosts});
}

// Is every operation issued after the previous one? The gaps of issue_s are the costs of the
// operations, except after a sync, which adds its own cost.
TEST(HostLanes, EveryOperationIsIssuedAfterTheOneBefore) {
  TrainingPlan plan = plan_of(small_gpt(4), {.tensor = 2, .pipeline = 2, .data = 2}, 4);
  plan.parallelism.overlap_p2p = false;
  const Workload workload = lower(plan);
  const auto lanes = host_lanes(workload, kHost, host_habits(plan.parallelism));
  ASSERT_EQ(lanes.size(), workload.programs.size());
  for (std::size_t program = 0; program < lanes.size(); ++program) {
    const OperationList& operations = workload.programs[program].operations;
    double expected = 0.0;
    auto sync = lanes[program].syncs.begin();
    std::size_t receives = 0;
    for (OpIndex op = 0; op < operations.size(); ++op) {
      expected += issue_seconds(workload, operations[op]);
      EXPECT_DOUBLE_EQ(lanes[program].issued_s[op], expected);
      if (operations[op].kind == OpKind::Recv) ++receives;
      if (sync == lanes[program].syncs.end() || sync->after != op) continue;
      EXPECT_NE(operations[op].kind, OpKind::Send);
      expected += 16.0;
      ++sync;
    }
    EXPECT_EQ(sync, lanes[program].syncs.end());
    // Each receive of four microbatches, and the gradient norm once.
    EXPECT_EQ(receives, 4U);
    EXPECT_EQ(lanes[program].syncs.size(), receives + 1);
  }
}

// Are receives of interleaved stages posted ahead? They are posted in the exchange before and no
// wait of the host delays them: neither of a host that waits for every kernel, nor of one that
// reads the gradients of a chunk (groups of microbatches larger than the pipeline, where a sender
// is one group ahead of the use).
TEST(HostLanes, InterleavedReceivesArePostedAhead) {
  for (const std::int64_t group : {4, 8}) {
    for (const bool blocking : {false, true}) {
      TrainingPlan plan = plan_of(small_gpt(8),
                                  {.pipeline = 4,
                                   .interleave = 2,
                                   .schedule = "interleaved_1f1b",
                                   .microbatch_group_size = group,
                                   .overlap_p2p = false},
                                  16);
      HostCosts host = kHost;
      host.blocking = blocking;
      const Workload workload = lower(plan);
      const auto lanes = host_lanes(workload, host, host_habits(plan.parallelism));
      for (std::size_t program = 0; program < lanes.size(); ++program) {
        const OperationList& operations = workload.programs[program].operations;
        for (OpIndex op = 0; op < operations.size(); ++op)
          EXPECT_EQ(lanes[program].ahead[op], operations[op].kind == OpKind::Recv);
        for (const HostSync& sync : lanes[program].syncs)
          EXPECT_NE(operations[sync.after].kind, OpKind::Recv);
      }
      const double with_host = replay_with_hosts(workload, lanes, 3.0, true).makespan_s;
      EXPECT_GE(with_host, lanes.front().issued_s.back());
    }
  }
}

// Are overlapped messages not waited for?
TEST(HostLanes, OverlappedMessagesAreNotWaitedFor) {
  const TrainingPlan plan = plan_of(small_gpt(4), {.pipeline = 2}, 4);
  const Workload workload = lower(plan);
  for (const HostLane& lane : host_lanes(workload, kHost, host_habits(plan.parallelism)))
    EXPECT_EQ(lane.syncs.size(), 1U);  // the gradient norm
  EXPECT_TRUE(host_lanes(workload, kHost, host_habits(plan.parallelism)).front().ahead.empty());
}

// Does the host wait for the token counts of experts? They are counted once per layer and
// microbatch, and the host needs the numbers. With a capacity to which all experts are padded they
// are known.
TEST(HostLanes, CountsOfExpertsAreWaitedFor) {
  TrainingPlan plan = plan_of(small_moe(3), {.data = 2, .expert = 2}, 8);
  const auto syncs = [&plan] { return host_lanes(lower(plan), kHost, {}).front().syncs.size(); };
  const auto microbatches = static_cast<std::size_t>(plan.microbatches());
  const auto layers = static_cast<std::size_t>(layers_with_experts(plan.architecture));
  EXPECT_EQ(syncs(), layers * microbatches + 1);  // and the gradient norm
  plan.experts.capacity_factor = 1.0;
  plan.experts.pad_to_capacity = true;
  EXPECT_EQ(syncs(), 1U);
}

// Does a free host have no lanes?
TEST(HostLanes, AFreeHostHasNoLanes) {
  const TrainingPlan plan = plan_of(small_gpt(4), {}, 4);
  EXPECT_TRUE(host_lanes(lower(plan), {}, {}).empty());
}

// Is a step of empty kernels exactly the host's work?
TEST(HostLanes, AStepOfEmptyKernelsIsTheHostsWork) {
  const TrainingPlan plan = plan_of(small_llama(3), {}, 2);
  const Workload workload = lower(plan);
  const auto lanes = host_lanes(workload, kHost, host_habits(plan.parallelism));
  const Timeline timeline = replay_with_hosts(workload, lanes, 0.0, true);
  EXPECT_NEAR(timeline.makespan_s, lanes[0].issued_s.back(), 1e-9 * timeline.makespan_s);
}

// Is a step longer by the time between steps? The host does other work for three seconds between
// steps, and all kernels are empty.
TEST(HostLanes, TheTimeBetweenStepsComesFirst) {
  const TrainingPlan plan = plan_of(small_llama(3), {}, 2);
  const Workload workload = lower(plan);
  HostCosts host = kHost;
  const auto makespan = [&] {
    return replay_with_hosts(workload, host_lanes(workload, host, {}), 0.0, true).makespan_s;
  };
  const double before = makespan();
  host.step = Seconds{3.0};
  EXPECT_DOUBLE_EQ(makespan(), before + 3.0);
}

// Does a blocking host take turns with its GPU? A host that waits for every kernel never issues
// ahead, so the times of host and GPU add up.
TEST(HostLanes, ABlockingHostTakesTurnsWithItsGpu) {
  const TrainingPlan plan = plan_of(small_llama(3), {}, 2);
  const Workload workload = lower(plan);
  HostCosts host = kHost;
  host.synchronize = Seconds{0.0};
  host.blocking = true;
  const auto lanes = host_lanes(workload, host, {});
  const double kernels = static_cast<double>(workload.programs[0].operations.size());
  EXPECT_EQ(lanes[0].syncs.size(), workload.programs[0].operations.size());
  EXPECT_DOUBLE_EQ(replay_with_hosts(workload, lanes, 3.0, true).makespan_s,
                   lanes[0].issued_s.back() + 3.0 * kernels);
}

// Does a step end for every layout? No shape hangs, with blocking hosts and with others; folded and
// unfolded times are equal; no step is shorter than host or GPU alone.
TEST(HostLanes, StepsEndWhateverTheLayout) {
  std::vector<Parallelism> layouts = {
      {.tensor = 2, .sequence_parallel = true, .data = 2, .zero_stage = 1},
      {.tensor = 2, .pipeline = 2, .data = 2},
      {.pipeline = 4, .data = 2},
      {.pipeline = 4, .interleave = 2, .schedule = "interleaved_1f1b"},
      {.pipeline = 4, .schedule = "gpipe"}};
  for (Parallelism layout : layouts) {
    for (const bool overlap : {true, false}) {
      layout.overlap_p2p = overlap;
      HostCosts host = kHost;
      host.blocking = !overlap && (layout.schedule == "1f1b" || layout.interleave > 1);
      const TrainingPlan plan = plan_of(small_gpt(8), layout, 8);
      const Workload workload = lower(plan);
      const auto lanes = host_lanes(workload, host, host_habits(layout));
      const double alone = replay_with_hosts(workload, {}, 3.0, true).makespan_s;
      const double folded = replay_with_hosts(workload, lanes, 3.0, true).makespan_s;
      const double unfolded = replay_with_hosts(workload, lanes, 3.0, false).makespan_s;
      EXPECT_NEAR(folded, unfolded, 1e-9 * folded);
      EXPECT_GE(folded, alone);
      for (const HostLane& lane : lanes) EXPECT_GE(folded, lane.issued_s.back());
    }
  }
}

}  // namespace
}  // namespace trainyard
