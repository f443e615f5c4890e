// Sampled runs with every kind of failure, policy, pause and checkpoint level: by hand where
// nothing is random, by closed forms where it is.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "models/reliability/checkpoint_interval.hpp"
#include "tests/tools/studies/goodput/fixtures.hpp"
#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/report.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"

namespace trainyard {
namespace {

struct Mean {
  double mean = 0.0;
  double error = 0.0;
};
// Over pairs of antithetic runs, with the standard error.
template <class Value>
Mean mean_of(const Job& job, const RunLength& length, int pairs, const Value& value) {
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < pairs; ++i) {
    const auto run = static_cast<std::uint64_t>(2 * i);
    const double one =
        (value(sampled_run(job, length, 11, run)) + value(sampled_run(job, length, 11, run + 1))) /
        2;
    sum += one;
    squares += one * one;
  }
  const double mean = sum / pairs;
  return {mean, std::sqrt((squares / pairs - mean * mean) / (pairs - 1))};
}

// Steps of a second, a checkpoint after every hundred.
Job plain_job() {
  Job job;
  job.step_s = 1.0;
  job.storage().interval_steps = 100;
  return job;
}

Job failing_job(const InterruptionCause& cause) {
  Job job = plain_job();
  job.causes = {cause};
  return job;
}

// ---- slow parts and silent errors

// One part slows the step from 1 to 1.25 s for 500 s in the mean, once per 2000 s.
Job job_with_slow_parts() {
  Job job = failing_job({.name = "slow",
                         .kind = FailureKind::Degrading,
                         .rate = 1.0 / 2000,
                         .detect_s = kForEver,
                         .duration_s = 500});
  job.step_in = [](const JobState& state) { return state.slow.empty() ? 1.0 : 1.25; };
  return job;
}

// The number of slow parts is Poisson with mean 0.25, so steps are slow for 1 - e^(-1/4) of the
// time, and of that time 0.25/1.25 is lost.
TEST(SlowParts, SlowStepsAsLongAsTheyLast) {
  const Job job = job_with_slow_parts();
  const Mean lost = mean_of(job, {.wall_s = 1e6}, 40, [](const SampledRun& run) {
    return run.phase(RunPhase::Degraded) / run.wall_s;
  });
  const double expected = (1 - std::exp(-0.25)) * 0.2;
  EXPECT_LT(std::abs(lost.mean - expected) / lost.error, 3) << lost.mean << " " << expected;
}

// Where layers move to other stages, every change of the state costs the time of the move, and so
// does the change back.
TEST(SlowParts, MoveLayersWhenTheyBeginAndEnd) {
  Job job = job_with_slow_parts();
  int moves = 0;
  job.move_s = [&moves](const JobState& from, const JobState& to) {
    moves += from == to ? 0 : 1;
    return from == to ? 0.0 : 3.0;
  };
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_GT(moves, 600);
  EXPECT_NEAR(run.phase(RunPhase::Reconfigure), 3.0 * moves, 1e-6);
  EXPECT_NEAR(sum_of(run), 1e6, 1e-3);
}

// A job of one node, of which a part becomes slow at this rate and is found after 300 s. The job
// saves only before a node is replaced.
Job job_with_slow_part(double rate, double stall_s) {
  Job job = failing_job({.name = "slow",
                         .kind = FailureKind::Degrading,
                         .rate = rate,
                         .nodes = 1,
                         .detect_s = 300,
                         .duration_s = kForEver});
  job.storage().stall_s = stall_s;
  job.storage().interval_steps = 1'000'000'000;
  job.spares.cold_replace_s = 0.0;
  job.step_in = [](const JobState& state) { return state.slow.empty() ? 1.0 : 1.25; };
  return job;
}

// A part that stays slow is found after 300 s, and its node replaced: every slow part costs 300 s
// at 1.25 s a step, a save of 5 s and a start of 20 s.
TEST(SlowParts, AreReplacedWhenTheyAreFound) {
  Job job = job_with_slow_part(1.0 / 50'000, 5);
  job.start_s = 20;
  const Mean found = mean_of(job, {.wall_s = 5e6}, 20, [](const SampledRun& run) {
    return run.phase(RunPhase::Degraded) / static_cast<double>(run.nodes_lost);
  });
  EXPECT_NEAR(found.mean, 300 * 0.2, 0.5);
  const SampledRun one = sampled_run(job, {.wall_s = 5e6}, 11, 0);
  EXPECT_GT(one.nodes_lost, 50);
  EXPECT_NEAR(one.phase(RunPhase::Start), 20.0 * static_cast<double>(one.nodes_lost), 20);
  EXPECT_NEAR(one.phase(RunPhase::Checkpoint), 5.0 * static_cast<double>(one.nodes_lost), 5);
  EXPECT_EQ(one.phase(RunPhase::Redone), 0.0);  // the job has saved
}

// A node that stays slow for ever is never found, but fails after 1000 s in the mean. The node that
// takes its place is not slow, so the job does not become slower and slower.
TEST(SlowParts, LeaveWithTheirNode) {
  Job job = failing_job({.name = "node", .rate = 1.0 / 1000, .nodes = 1});
  job.causes.push_back({.name = "slow",
                        .kind = FailureKind::Degrading,
                        .rate = 1.0 / 10'000,
                        .detect_s = kForEver,
                        .duration_s = kForEver});
  job.spares.cold_replace_s = 0.0;
  job.step_in = [](const JobState& state) { return state.slow.empty() ? 1.0 : 1.25; };
  // A node is new at rate 1/1000 and becomes slow at rate 1/10 000: it is slow 1/11 of the time.
  const Mean slow = mean_of(job, {.wall_s = 1e6}, 20, [](const SampledRun& run) {
    return run.phase(RunPhase::Degraded) / run.wall_s;
  });
  const double expected = 1.0 / 11 * 0.2;
  EXPECT_NEAR(slow.mean, expected, 5 * slow.error + 0.1 * expected);
}

// Four of ten saves before an eviction fail. Is the slow node found again after it?
TEST(SlowParts, StayWhereTheSaveBeforeTheirEvictionFails) {
  Job job = job_with_slow_part(1.0 / 20'000, 500);
  job.causes.push_back({.name = "software", .rate = 1.0 / 1000});
  const SampledRun run = sampled_run(job, {.wall_s = 5e6}, 11, 0);
  EXPECT_GT(run.interruptions[0], 150);
  // One node in twenty becomes slow again before it leaves.
  EXPECT_GT(static_cast<double>(run.nodes_lost), 0.9 * static_cast<double>(run.interruptions[0]));
}

// A wrong result is found after 1000 s. Lost are these 1000 s of work, and what lay between the
// last checkpoint and the error: 50 s in the mean of an interval of 100 s.
TEST(SilentErrors, LoseTheWorkSinceTheLastSoundCheckpoint) {
  const Job job = failing_job(
      {.name = "silent", .kind = FailureKind::Silent, .rate = 1.0 / 100'000, .detect_s = 1000});
  const Mean lost = mean_of(job, {.wall_s = 1e7}, 20, [](const SampledRun& run) {
    return run.phase(RunPhase::Redone) / static_cast<double>(run.restarts);
  });
  EXPECT_NEAR(lost.mean, 1050, 5);
}

// Storage keeps five checkpoints, all of them from after the error: all work is lost.
TEST(SilentErrors, LoseEverythingWhereNoSoundCheckpointIsKept) {
  Job job = failing_job(
      {.name = "silent", .kind = FailureKind::Silent, .rate = 1.0 / 100'000, .detect_s = 1000});
  job.kept = 5;
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_GE(run.restarts, 3);
  EXPECT_GT(run.phase(RunPhase::Redone), 0.5e6);
  job.kept = 20;
  EXPECT_LT(sampled_run(job, {.wall_s = 1e6}, 11, 0).phase(RunPhase::Redone), 0.1e6);
}

// Two twins, no repair: each can be lost once. A wrong result of a node that has failed since does
// not take a node out of the empty slot.
TEST(SilentErrors, LoseNoNodeThatHasLeft) {
  Job job = failing_job({.name = "silent",
                         .kind = FailureKind::Silent,
                         .rate = 1.0 / 1000,
                         .nodes = 1,
                         .detect_s = 2000});
  job.causes.push_back({.name = "node", .rate = 1.0 / 1000, .nodes = 1});
  job.policy = FailurePolicy::Mirrored;
  job.spares.repair_s = 1e9;
  job.spares.repair_distribution = RepairDistribution::Fixed;
  std::int64_t twice = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const SampledRun run = sampled_run(job, {.wall_s = 20'000}, 11, i);
    EXPECT_LE(run.nodes_lost, 2);
    twice += run.nodes_lost == 2 ? 1 : 0;
  }
  EXPECT_GT(twice, 90);
}

// Checks every 1000 s find 70 % of the errors: an error waits 1000 (1/0.7 - 1/2) = 928.6 s.
TEST(HealthChecks, FindErrorsAfterTheClosedForm) {
  Job job = failing_job(
      {.name = "silent", .kind = FailureKind::Silent, .rate = 1.0 / 100'000, .detect_s = kForEver});
  job.storage().interval_steps = 1;
  job.health_check =
      HealthCheckSettings{.every = Seconds{1000}, .duration = Seconds{0}, .coverage = 0.7};
  const Mean lost = mean_of(job, {.wall_s = 1e7}, 40, [](const SampledRun& run) {
    return run.phase(RunPhase::Redone) / static_cast<double>(run.restarts);
  });
  EXPECT_LT(std::abs(lost.mean - 1000 * (1 / 0.7 - 0.5)) / lost.error, 3) << lost.mean;
}

TEST(HealthChecks, TakeTheirTime) {
  Job job = plain_job();
  job.health_check = HealthCheckSettings{.every = Seconds{50}, .duration = Seconds{2}};
  // 1000 steps, 19 checks between them: the last one comes after the last step.
  const SampledRun run = sampled_run(job, {.steps = 1000}, 0, 0);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Checked), 38);
  EXPECT_DOUBLE_EQ(run.wall_s, 1038);
}

// ---- pauses and queues

TEST(Pauses, ComeAtTheirSteps) {
  Job job = plain_job();
  job.pauses = {{.cause = "evaluation", .every_steps = 250, .duration = Seconds{60}}};
  const SampledRun run = sampled_run(job, {.steps = 1000}, 0, 0);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Paused), 180);  // the fourth is after the last step
  EXPECT_DOUBLE_EQ(run.wall_s, 1180);
}

// Maintenance of 100 s every 1000 s, with a checkpoint of 5 s before and a start of 10 s after it:
// of 10 000 s, the nine windows from 1000 s to 9000 s cost 115 s each.
TEST(Pauses, StopTheJobOnTheCalendar) {
  Job job = plain_job();
  job.storage() = {.interval_steps = 1'000'000, .stall_s = 5};
  job.start_s = 10;
  job.pauses = {{.cause = "maintenance", .every = Seconds{1000}, .duration = Seconds{100}}};
  const SampledRun run = sampled_run(job, {.wall_s = 10'000}, 0, 0);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Paused), 900);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Start), 90);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Checkpoint), 45);
  EXPECT_DOUBLE_EQ(run.phase(RunPhase::Productive), 10'000 - 9 * 115);
}

// A restart delays the maintenance that falls into it, and not those after it.
TEST(Pauses, KeepTheirDatesAfterAFailure) {
  Job job = failing_job({.name = "trace", .trace_s = std::vector<double>{995.0}});
  job.start_s = 300;
  job.pauses = {{.cause = "maintenance", .every = Seconds{1000}, .duration = Seconds{10}}};
  std::vector<RunEvent> events;
  (void)sampled_run(job, {.wall_s = 4000}, 0, 0, &events);
  std::vector<double> begins;
  for (const RunEvent& event : events)
    if (event.phase == RunPhase::Paused) begins.push_back(event.begin_s);
  EXPECT_EQ(begins, (std::vector<double>{1295, 2000, 3000}));
}

// A job whose limit is shorter than its last checkpoint saves when the limit ends it, and is done.
TEST(Pauses, EndARunWhoseStepsAreSaved) {
  Job job = plain_job();
  job.storage().write_s = 50;
  job.pauses = {{.cause = "time limit", .limit = Seconds{60}}};
  const SampledRun run = sampled_run(job, {.steps = 150}, 0, 0);
  EXPECT_DOUBLE_EQ(run.steps, 150);
}

// A job may run for 1000 s, then waits in the queue for 50 s in the mean.
TEST(Pauses, EndAJobAtItsTimeLimit) {
  Job job = plain_job();
  job.queue_s = 50;
  job.pauses = {{.cause = "time limit", .limit = Seconds{1000}}};
  const Mean queued = mean_of(job, {.wall_s = 1e6}, 20, [](const SampledRun& run) {
    return run.phase(RunPhase::Queue) / static_cast<double>(run.restarts);
  });
  EXPECT_LT(std::abs(queued.mean - 50) / queued.error, 3);
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_NEAR(run.phase(RunPhase::Productive) / static_cast<double>(run.restarts), 1000, 2);
}

// Does the time limit go on where the job goes on without a failed node? Its failures come every
// 1000 s, and the limit of 5000 s ends it once in 5000 s all the same.
TEST(Pauses, ATimeLimitGoesOnWhereTheJobDoes) {
  Job job = failing_job({.name = "node", .rate = 1.0 / 1000, .nodes = 1});
  job.policy = FailurePolicy::Reroute;
  job.replicas = 8;
  job.stages = 2;
  job.nodes_per_replica = 2;
  job.spares.repair_s = 1.0;
  job.step_in = [](const JobState&) { return 1.0; };
  job.pauses = {{.cause = "time limit", .limit = Seconds{5000}}};
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_GT(run.trained_on, 800);
  EXPECT_NEAR(static_cast<double>(run.restarts), 200, 2);
}

// ---- nodes

// 5 % of 1000 nodes fail at 20 times the rate of the others, and every failed node comes back to
// its slot after a second. The mean rate is then that of the cause.
Job lemon_job() {
  Job job = failing_job({.name = "node", .rate = 1.0 / 1000, .nodes = 1});
  job.nodes_per_replica = 1000;
  job.lemons = {.share = 0.05, .multiple = 20};
  job.spares = {.repair_s = 1.0, .repair_distribution = RepairDistribution::Fixed};
  return job;
}
Mean failures_of(const Job& job, double wall_s) {
  return mean_of(job, {.wall_s = wall_s}, 40,
                 [](const SampledRun& run) { return static_cast<double>(run.interruptions[0]); });
}

TEST(Lemons, HaveTheMeanRateOfAllNodes) {
  const Mean count = failures_of(lemon_job(), 1e6);
  EXPECT_LT(std::abs(count.mean - 1000) / count.error, 3) << count.mean;
}

// A sound node replaces a lemon at its first failure. When all have failed, the rate is that of
// sound nodes, 1/(0.95 + 20 x 0.05) = 0.513 of the mean.
TEST(Lemons, AreGoneAfterTheirEviction) {
  Job job = lemon_job();
  job.lemons.evict_after = 1;
  const double late = failures_of(job, 3e6).mean - failures_of(job, 2e6).mean;
  EXPECT_NEAR(late / 1000, 1 / (0.95 + 20 * 0.05), 0.02);
}

// A node from elsewhere takes the slot of a lemon, and is seldom one: without repairs the job has
// fewer lemons and failures than its nodes had at first.
TEST(Lemons, LeaveByThemselvesWhereNodesComeFromElsewhere) {
  Job job = lemon_job();
  job.spares = {.cold_replace_s = 1.0};
  EXPECT_LT(failures_of(job, 2e6).mean / 2000, 0.7);
}

// A leaf takes the 16 nodes below it at once.
TEST(CorrelatedFailures, TakeTheNodesSideBySide) {
  Job job = failing_job({.name = "leaf", .rate = 1e-5, .nodes = 16});
  job.nodes_per_replica = 64;
  job.spares.cold_replace_s = 30.0;
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  ASSERT_GT(run.interruptions[0], 3);
  EXPECT_EQ(run.nodes_lost, 16 * run.interruptions[0]);
  EXPECT_NEAR(run.phase(RunPhase::Replace), 30.0 * static_cast<double>(run.restarts), 1e-6);
}

// ---- near checkpoints

// Failures of software spare a copy in memory that is made every 10 steps: they lose 5 s in the
// mean, not the 500 s of storage. Failures of nodes lose the copy of the only node that has it.
TEST(NearCheckpoints, SpareTheWorkOfFailuresThatTheySurvive) {
  const auto lost_per_failure = [](std::int64_t nodes, std::int64_t copies) {
    Job job = failing_job({.name = "any", .rate = 1.0 / 20'000, .nodes = nodes});
    job.nodes_per_replica = 8;
    job.spares.cold_replace_s = 0.0;
    job.levels = {{.name = "memory", .interval_steps = 10, .copies = copies},
                  {.interval_steps = 1000}};
    return mean_of(job, {.wall_s = 1e7}, 20, [](const SampledRun& run) {
      return run.phase(RunPhase::Redone) / static_cast<double>(run.restarts);
    });
  };
  EXPECT_NEAR(lost_per_failure(0, 1).mean, 5, 0.2);
  EXPECT_NEAR(lost_per_failure(1, 1).mean, 500, 15);
  EXPECT_NEAR(lost_per_failure(1, 2).mean, 5, 0.2);
}

// Each level is loaded in its own time, and a copy that the failure spares survives a second
// failure during the recovery.
TEST(NearCheckpoints, AreLoadedInTheirOwnTime) {
  Job job = failing_job({.name = "any", .rate = 1.0 / 20'000});
  job.levels = {{.name = "memory", .interval_steps = 10, .load_s = 3, .copies = 1},
                {.interval_steps = 1000, .load_s = 70}};
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  // A failure in the first 10 steps would load from storage; this run has none.
  EXPECT_EQ(run.restored_near, run.restarts);
  EXPECT_NEAR(run.phase(RunPhase::Load), 3.0 * static_cast<double>(run.restarts), 3.0);
}

// Both nodes hold a copy. A failure while the job loads hits the other node as often as not, before
// the new one has loaded anything: is the work since storage then lost?
TEST(NearCheckpoints, AreLostWhereAllCopiesAreLostInOneRecovery) {
  Job job = failing_job({.name = "node", .rate = 1.0 / 10'000, .nodes = 1});
  job.nodes_per_replica = 2;
  job.spares.cold_replace_s = 0.0;
  job.levels = {{.name = "memory", .interval_steps = 1, .load_s = 10'000, .copies = 2},
                {.interval_steps = 5000}};
  const SampledRun run = sampled_run(job, {.wall_s = 1e7}, 11, 0);
  EXPECT_GT(run.restarts, 300);
  EXPECT_LT(run.restored_near, run.restarts - 50);
  EXPECT_GT(run.phase(RunPhase::Redone) / static_cast<double>(run.restarts), 100);
}

// Two levels against the first-order waste at Young's intervals, where failures are rare.
TEST(NearCheckpoints, WasteAsTheTwoLevelsOfTheClosedForm) {
  const reliability::TwoLevels levels{.memory = {.write = 0.5, .restart = 30},
                                      .storage = {.write = 60, .restart = 300},
                                      .memory_share = 0.9,
                                      .mtbf = 111'350};
  const reliability::TwoIntervals best = reliability::two_level_intervals(levels);
  Job job;
  job.step_s = 1.0;
  job.nodes_per_replica = 4;
  job.spares.cold_replace_s = 0.0;
  job.causes = {{.name = "software", .rate = 0.9 / levels.mtbf},
                {.name = "node", .rate = 0.1 / levels.mtbf, .nodes = 1}};
  job.levels = {
      {.interval_steps = std::llround(best.memory), .stall_s = 0.5, .load_s = 30, .copies = 1},
      {.interval_steps = std::llround(best.storage), .stall_s = 60, .load_s = 300}};
  const Mean waste = mean_of(job, {.wall_s = 2e7}, 30, [](const SampledRun& run) {
    return 1 - run.phase(RunPhase::Productive) / run.wall_s;
  });
  EXPECT_NEAR(waste.mean, best.waste, 0.05 * best.waste);
}

// Does the work that a failure during the last checkpoint takes stay positive? A near checkpoint of
// steps after the last one would be ahead of the job.
TEST(NearCheckpoints, AreNotOfStepsAfterTheLast) {
  Job job = failing_job({.name = "software", .rate = 1.0 / 300});
  job.levels.insert(job.levels.begin(), {.name = "memory", .interval_steps = 1, .copies = 2});
  job.storage() = {.interval_steps = 100, .stall_s = 200};
  for (std::uint64_t i = 0; i < 100; ++i) {
    const SampledRun run = sampled_run(job, {.steps = 150}, 11, i);
    for (const double phase_s : run.phases_s) EXPECT_GE(phase_s, 0.0) << i;
    EXPECT_NEAR(sum_of(run), run.wall_s, 1e-6) << i;
    EXPECT_DOUBLE_EQ(run.steps, 150) << i;
  }
}

// ---- replacement

// A failure at 100 s takes four nodes. Spares take 20 s and nodes from elsewhere 30 s, at the same
// time: only four spares make it quicker.
TEST(Replacement, TakesSparesAndNodesFromElsewhereAtTheSameTime) {
  for (const std::int64_t spares : {0, 1, 3, 4}) {
    Job job = failing_job({.name = "rack", .nodes = 4, .trace_s = std::vector<double>{100.0}});
    job.nodes_per_replica = 8;
    job.spares = {.nodes = spares, .replace_s = 20, .cold_replace_s = 30};
    const SampledRun run = sampled_run(job, {.wall_s = 1000}, 0, 0);
    EXPECT_DOUBLE_EQ(run.phase(RunPhase::Replace), spares == 4 ? 20 : 30) << spares;
    EXPECT_EQ(run.nodes_lost, 4);
  }
}

// A node that is repaired before one from elsewhere comes is taken; of two missing nodes the other
// one still comes at its time.
TEST(Replacement, TakesARepairThatEndsEarlier) {
  Job job = failing_job({.name = "node", .nodes = 1, .trace_s = std::vector<double>{100.0}});
  job.nodes_per_replica = 8;
  job.spares = {.replace_s = 1, .cold_replace_s = 30, .repair_s = 10};
  job.spares.repair_distribution = RepairDistribution::Fixed;
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 1000}, 0, 0).phase(RunPhase::Replace), 11);
  job.spares.cold_replace_s = 5;
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 1000}, 0, 0).phase(RunPhase::Replace), 5);
}

// Two replicas of two nodes, of which one loses both. The first repair gives the job no replica
// back, the second does.
TEST(Elastic, StopsForRepairsThatBringAReplicaBack) {
  Job job = failing_job({.name = "rack", .nodes = 2, .trace_s = std::vector<double>{100.0}});
  job.policy = FailurePolicy::Elastic;
  job.replicas = 2;
  job.nodes_per_replica = 2;
  job.step_in = [](const JobState&) { return 1.0; };
  job.spares.repair_s = 1000;
  const SampledRun run = sampled_run(job, {.wall_s = 100'000}, 11, 0);
  EXPECT_EQ(run.nodes_lost, 2);
  EXPECT_EQ(run.rejoins, 1);
  EXPECT_EQ(run.restarts, 2);
}

// A job that does not fit into the memory of one replica waits for the repair.
TEST(Elastic, WaitsWhereTheSmallerJobDoesNotFit) {
  Job job = failing_job({.name = "node", .nodes = 1, .trace_s = std::vector<double>{100.0}});
  job.policy = FailurePolicy::Elastic;
  job.replicas = 2;
  job.step_in = [](const JobState&) { return 1.0; };
  job.spares = {.repair_s = 1000};
  job.spares.repair_distribution = RepairDistribution::Fixed;
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 5000}, 0, 0).phase(RunPhase::Replace), 0);
  const auto says_so = [&job] {
    const Goodput all = goodput(job, {.length = {.wall_s = 5000}, .runs = 8});
    const std::string text = goodput_text({.title = "tight", .job = job, .result = all});
    return text.find("DOES NOT FIT with 1 of 2 replicas") != std::string::npos;
  };
  EXPECT_FALSE(says_so());
  job.fits = [](std::int64_t lost) { return lost == 0; };
  EXPECT_DOUBLE_EQ(sampled_run(job, {.wall_s = 5000}, 0, 0).phase(RunPhase::Replace), 1000);
  EXPECT_TRUE(says_so());
}

// ---- policies that train on

Job pair_job(FailurePolicy policy) {
  Job job = failing_job({.name = "node", .rate = 1.0 / 1000, .nodes = 1});
  job.policy = policy;
  job.replicas = 8;
  job.stages = 2;
  job.nodes_per_replica = 2;
  job.spares.repair_s = 50.0;
  job.reconfigure_s = 4.0;
  job.step_in = [](const JobState& state) {
    return 1.0 + 0.1 * static_cast<double>(state.empty_stages.size());
  };
  return job;
}

// Twins: 16 + 16 nodes, each fails at 1/32000 per second and is away for 50 s. The job stops when
// the twin of a missing node fails: per failure, with the chance that the twin is among those away,
// a = 50/1000 of 31 others.
TEST(Mirrored, StopsOnlyWhereBothTwinsAreAway) {
  const Job job = pair_job(FailurePolicy::Mirrored);
  const Mean stops = mean_of(job, {.wall_s = 1e7}, 40, [](const SampledRun& run) {
    return static_cast<double>(run.restarts) / static_cast<double>(run.interruptions[0]);
  });
  EXPECT_LT(std::abs(stops.mean - 50.0 / 1000 / 31) / stops.error, 4) << stops.mean;
}

// Reroute: each failure costs a reconfiguration of 4 s, one more when the node is back, half a
// step, and 50 s of steps that take 10 % longer.
TEST(Reroute, PaysReconfigurationsAndSlowerSteps) {
  const Job job = pair_job(FailurePolicy::Reroute);
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  const auto failures = static_cast<double>(run.interruptions[0]);
  EXPECT_EQ(run.restarts, 0);
  EXPECT_EQ(run.trained_on, run.interruptions[0]);
  EXPECT_NEAR(run.phase(RunPhase::Reconfigure), 8 * failures, 40);
  EXPECT_NEAR(run.phase(RunPhase::Redone) / failures, 0.5, 0.1);
  EXPECT_NEAR(run.phase(RunPhase::Degraded) / failures, 50 * 0.1 / 1.1, 1.0);
}

// A job that starts anew cannot train on without a node that fails meanwhile: the restart begins
// again. Does every failure of software cost a whole start of 500 s?
TEST(Reroute, RestartsWholeWhereANodeFailsMeanwhile) {
  Job job = pair_job(FailurePolicy::Reroute);
  job.causes.push_back({.name = "software", .rate = 1.0 / 5000});
  job.start_s = 500;
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_GT(run.interruptions[1], 100);
  EXPECT_GT(run.phase(RunPhase::Start), 490.0 * static_cast<double>(run.interruptions[1]));
  EXPECT_GT(run.trained_on, 300);
}

// A step needs 7 of 8 replicas, so 7/8 of its work counts, and no failure stops the job until two
// replicas are away.
TEST(Backup, CountsTheReplicasThatAStepNeeds) {
  Job job = pair_job(FailurePolicy::Backup);
  job.backup_replicas = 1;
  job.causes.clear();
  const SampledRun whole = sampled_run(job, {.wall_s = 8000}, 0, 0);
  EXPECT_NEAR(whole.steps, 7000, 1e-6);
  EXPECT_NEAR(whole.phase(RunPhase::Productive), 7000, 1e-6);
  job = pair_job(FailurePolicy::Backup);
  job.backup_replicas = 1;
  const SampledRun run = sampled_run(job, {.wall_s = 1e6}, 11, 0);
  EXPECT_GT(run.trained_on, 800);
  EXPECT_GT(run.restarts, 5);
  EXPECT_LT(run.restarts, 120);
}

// Does a step wait for a slow replica only where the backups are used up? Steps that wait take
// twice the time. A node is slow from the first second on.
TEST(Backup, DoesNotWaitForASlowReplica) {
  Job job = pair_job(FailurePolicy::Backup);
  job.step_in = [](const JobState& state) { return state.slow.empty() ? 1.0 : 2.0; };
  job.causes = {{.name = "slow",
                 .kind = FailureKind::Degrading,
                 .detect_s = std::numeric_limits<double>::infinity(),
                 .duration_s = std::numeric_limits<double>::infinity(),
                 .trace_s = {{1.0}}}};
  job.backup_replicas = 1;
  const SampledRun one = sampled_run(job, {.wall_s = 8000}, 0, 0);
  EXPECT_EQ(one.interruptions[0], 1);
  EXPECT_NEAR(one.steps, 7000, 1e-6);
  // 40 slow parts are in several replicas.
  job.causes[0].trace_s->assign(40, 1.0);
  const SampledRun many = sampled_run(job, {.wall_s = 8000}, 0, 0);
  EXPECT_NEAR(many.steps, 3500, 1.0);
}

// ---- everything together

std::vector<Job> jobs_of_every_kind() {
  std::vector<Job> jobs;
  for (const FailurePolicy policy :
       {FailurePolicy::Restart, FailurePolicy::Elastic, FailurePolicy::Mirrored,
        FailurePolicy::Redundant, FailurePolicy::Reroute, FailurePolicy::Backup})
    for (const bool near : {false, true}) {
      Job job = pair_job(policy);
      job.policy_step_s = policy == FailurePolicy::Redundant ? 1.3 : 0.0;
      job.backup_replicas = policy == FailurePolicy::Backup ? 2 : 0;
      job.step_in = [](const JobState& state) {
        return 1.0 + 0.1 * static_cast<double>(state.empty_stages.size()) +
               0.2 * static_cast<double>(state.slow.size()) -
               0.001 * static_cast<double>(state.replicas_lost);
      };
      job.causes.push_back({.name = "leaf", .rate = 1e-5, .nodes = 4, .detect_s = 9});
      job.causes.push_back({.name = "slow",
                            .kind = FailureKind::Degrading,
                            .rate = 1e-4,
                            .nodes = 1,
                            .detect_s = 600,
                            .duration_s = 900});
      job.causes.push_back(
          {.name = "silent", .kind = FailureKind::Silent, .rate = 1e-5, .detect_s = 700});
      job.causes.push_back({.name = "flap",
                            .kind = FailureKind::Transient,
                            .rate = 1e-3,
                            .duration_s = 5,
                            .give_up_s = 20});
      job.causes.push_back({.name = "planned", .kind = FailureKind::Planned, .rate = 1e-5});
      job.lemons = {.share = 0.1, .multiple = 5, .evict_after = 3};
      job.spares.nodes = 2;
      job.spares.replace_s = 20;
      job.queue_s = 30;
      job.start_s = 40;
      job.storage() = {
          .interval_steps = 200, .stall_s = 3, .write_s = 60, .drag_s = 1, .load_s = 20};
      if (near)
        job.levels.insert(
            job.levels.begin(),
            {.name = "memory", .interval_steps = 20, .stall_s = 0.5, .load_s = 4, .copies = 2});
      job.pauses = {{.cause = "evaluation", .every_steps = 500, .duration = Seconds{30}},
                    {.cause = "maintenance", .every = Seconds{90'000}, .duration = Seconds{500}},
                    {.cause = "limit", .limit = Seconds{40'000}}};
      job.health_check = HealthCheckSettings{.every = Seconds{1000}, .duration = Seconds{2}};
      job.kept = 30;
      jobs.push_back(job);
    }
  return jobs;
}

// Every second is in one phase, no phase is negative, and the events of a run fill its calendar
// without gaps.
TEST(EveryKind, AddsUp) {
  int cases = 0;
  for (const Job& job : jobs_of_every_kind())
    for (const RunLength& length : {RunLength{.steps = 50'000}, RunLength{.wall_s = 200'000}})
      for (std::uint64_t index = 0; index < 6; ++index) {
        std::vector<RunEvent> events;
        const SampledRun run = sampled_run(job, length, 3, index, &events);
        EXPECT_NEAR(sum_of(run), run.wall_s, 1e-11 * run.wall_s);
        for (const double time_s : run.phases_s) EXPECT_GE(time_s, 0.0);
        EXPECT_NEAR(run.phase(RunPhase::Productive), run.steps * job.step_s, 1e-6 * run.wall_s);
        double at = 0.0;
        for (const RunEvent& event : events) {
          EXPECT_NEAR(event.begin_s, at, 1e-6);
          at = event.begin_s + event.duration_s;
        }
        EXPECT_NEAR(at, run.wall_s, 1e-6);
        ++cases;
      }
  EXPECT_EQ(cases, 144);
}

}  // namespace
}  // namespace trainyard
