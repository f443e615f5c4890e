// Interference: communication slows concurrent computation by the right amount and for the right
// time.
#include <gtest/gtest.h>

#include "builders.hpp"

namespace trainyard::test {
namespace {

// Two ranks that compute for `compute_s`, meanwhile all_reduce for `communication_s`, and then
// compute for `tail_s`.
struct Overlap {
  double compute_s = 0.0;
  double communication_s = 0.0;
  double tail_s = 0.0;
};

Script overlap_script(const Overlap& overlap) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce,
                                {phase(0.0, {link_flow({{0, overlap.communication_s * 1e9}})})});
  const auto program = script.program("both");
  script.compute(program, overlap.compute_s);
  script.communicate(program, OpKind::Collective, 0, call, {.stream = 1});
  if (overlap.tail_s > 0.0) script.compute(program, overlap.tail_s);
  const RankId first = script.rank(program);
  const RankId second = script.rank(program);
  script.group({{first, 0}, {second, 0}});
  return script;
}

struct Losses {
  double compute = 0.0;
  double communication = 0.0;
};

Timeline run_with_losses(Script& script, const Engine& engine, const Losses& losses,
                         bool folded = true) {
  const Partition partition = script.fold_it(folded);
  std::vector<std::vector<double>> compute;
  for (const auto& calls : partition.phases) compute.emplace_back(calls.size(), losses.compute);
  const std::vector<double> communication(partition.groups.size(), losses.communication);
  EngineInput input{.cluster = script.cluster(),
                    .workload = script.workload(),
                    .partition = partition,
                    .kernel_seconds = script.kernel_seconds(),
                    .progress = {},
                    .compute_loss = compute,
                    .communication_loss = communication,
                    .hosts = {}};
  return engine.run(input);
}

Timeline run_with_loss(Script& script, const Engine& engine, double loss, bool folded = true) {
  return run_with_losses(script, engine, {.compute = loss, .communication = 0.0}, folded);
}

// The engines, and SimGrid with the pricing of flows that a timer could replace.
std::vector<std::unique_ptr<Engine>> all_engines() {
  std::vector<std::unique_ptr<Engine>> all;
  for (const EngineEntry& entry : engines()) all.push_back(entry.make());
  all.push_back(simgrid_without_components());
  return all;
}

// Is no loss perfect overlap, and half each serial (oracle 65)? Rates of 1 mean max(compute,
// communication); rates of one half, in both directions, mean one after the other.
TEST(Interference, NoLossIsPerfectOverlapAndHalfEachIsSerial) {
  for (const auto& engine : all_engines()) {
    for (const double compute : {0.25, 1.0, 1.5, 4.0}) {
      Script script = overlap_script({.compute_s = compute, .communication_s = 1.0});
      const double free = run_with_losses(script, *engine, {}).makespan_s;
      EXPECT_NEAR(free, std::max(compute, 1.0), kAgreement * free);
      const double serial =
          run_with_losses(script, *engine, {.compute = 0.5, .communication = 0.5}).makespan_s;
      EXPECT_NEAR(serial, compute + 1.0, kAgreement * serial);
    }
  }
}

// Is communication slowed while a member computes? 4 s of communication run at three quarters of
// their speed during the 2 s of computation: 2.5 s are left.
TEST(Interference, CommunicationIsSlowedWhileAMemberComputes) {
  for (const auto& engine : all_engines()) {
    Script script = overlap_script({.compute_s = 2.0, .communication_s = 4.0});
    const Timeline timeline =
        run_with_losses(script, *engine, {.compute = 0.0, .communication = 0.25});
    EXPECT_NEAR(timeline.classes[0].end_s[0], 2.0, kAgreement);
    EXPECT_NEAR(timeline.classes[0].end_s[1], 4.5, kAgreement * 4.5);
  }
}

// Does each contiguous part of computation slow communication? Kernels one after another are one
// part; a kernel that starts later slows communication once more.
TEST(Interference, EachRegionOfComputationSlowsCommunication) {
  for (const auto& engine : all_engines()) {
    Script script({1e9, 1e9});
    const auto call =
        script.call(CollectiveOp::AllReduce, {phase(0.0, {link_flow({{0, 10e9}})})});  // 10 s
    const auto program = script.program("both");
    script.compute(program, 1.0);
    const OpIndex all_reduce =
        script.communicate(program, OpKind::Collective, 0, call, {.stream = 1});
    script.compute(program, 1.0);
    const OpIndex pause = script.delay(program, 3.0, {.stream = 2});
    script.compute(program, 2.0, {.stream = 0, .after = {pause}});
    const RankId first = script.rank(program);
    const RankId second = script.rank(program);
    script.group({{first, 0}, {second, 0}});
    const Timeline timeline =
        run_with_losses(script, *engine, {.compute = 0.0, .communication = 0.5});
    // Slow in 0..2 and 3..5 s: 2 s of its 10 are lost.
    EXPECT_NEAR(timeline.classes[0].end_s[all_reduce], 12.0, kAgreement * 12.0);
  }
}

// Is the loss a part of the rate that a flow has alone? A flow that sharing already keeps below its
// slowed rate loses nothing: two on a link have half each, and could move three quarters.
TEST(Interference, TheLossReducesTheRateThatAFlowHasAlone) {
  std::size_t with_contention = 0;
  for (const EngineEntry& entry : engines()) {
    if (entry.name == "ideal") continue;
    Script script({1e9, 1e9});
    const auto call = script.call(CollectiveOp::SendRecv, {phase(0.0, {link_flow({{0, 1e9}})})});
    for (int pair = 0; pair < 2; ++pair) {
      const auto sender = script.program("sender");
      script.compute(sender, 5.0);
      script.communicate(sender, OpKind::Send, 0, call, {.stream = 1});
      const auto receiver = script.program("receiver");
      script.communicate(receiver, OpKind::Recv, 0, call, {.stream = 1});
      const RankId from = script.rank(sender);
      const RankId to = script.rank(receiver);
      script.group({{from, 0}, {to, 0}});
    }
    const auto engine = entry.make();
    const auto end = [&](double loss) {
      return run_with_losses(script, *engine, {.compute = 0.0, .communication = loss}, false)
          .classes[0]
          .end_s[1];
    };
    EXPECT_NEAR(end(0.25), 2.0, 1e-8);
    EXPECT_NEAR(end(0.75), 4.0, 1e-8);
    ++with_contention;
  }
  EXPECT_GE(with_contention, 1U);
}

// Is only the overlapped part slowed? 10 s of work lose a quarter of the speed for 4 s: 3 s of it
// are done then, and 7 s follow.
TEST(Interference, OnlyTheOverlappedPartIsSlowed) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 10.0, .communication_s = 4.0, .tail_s = 1.0});
    const Timeline timeline = run_with_loss(script, *entry.make(), 0.25);
    EXPECT_NEAR(timeline.classes[0].end_s[0], 11.0, 1e-9);
    EXPECT_NEAR(timeline.makespan_s, 12.0, 1e-9);
  }
}

// Are later kernels slowed too, and do outdated end times not count? A kernel that starts during
// communication is slow from its start, and an announced end that is no longer valid does not
// lengthen the step.
TEST(Interference, LaterKernelsAreSlowedTooAndStaleEndsDoNotCount) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 1.0, .communication_s = 3.0, .tail_s = 1.0});
    const Timeline timeline = run_with_loss(script, *entry.make(), 0.5);
    // The first kernel takes 2 s; the second has half a second done at 3 s and half a second left.
    EXPECT_NEAR(timeline.classes[0].end_s[0], 2.0, 1e-9);
    EXPECT_NEAR(timeline.classes[0].end_s[2], 3.5, 1e-9);
    EXPECT_NEAR(timeline.makespan_s, 3.5, 1e-9);
  }
}

// Do folded and unfolded runs agree?
TEST(Interference, FoldedAndUnfoldedAgree) {
  for (const EngineEntry& entry : engines()) {
    Script script = overlap_script({.compute_s = 1.3, .communication_s = 0.7, .tail_s = 0.4});
    const auto engine = entry.make();
    const double folded = run_with_loss(script, *engine, 0.222, true).makespan_s;
    const double unfolded = run_with_loss(script, *engine, 0.222, false).makespan_s;
    EXPECT_NEAR(folded, unfolded, kAgreement * folded);
  }
}

}  // namespace
}  // namespace trainyard::test
