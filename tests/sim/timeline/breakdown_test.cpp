#include "sim/timeline/breakdown.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/sim/timeline/hand_run.hpp"

namespace trainyard {
namespace {

Breakdown of(const HandRun& run, std::size_t rank_class = 0) {
  return breakdown(run.workload, run.partition, run.timeline, rank_class);
}

// Is work charged to its own share? The times in these tests are sums of binary fractions, so that
// they are exact.
TEST(Breakdown, ComputationIsChargedToCompute) {
  HandRun run;
  run.compute({.end_s = 1.0});
  run.compute({.ready_s = 1.0, .end_s = 1.5, .work = WorkClass::Optimizer});
  run.delay({.ready_s = 1.5, .end_s = 1.75});
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Compute), 1.0);
  EXPECT_EQ(result.of(TimeShare::Optimizer), 0.5);
  EXPECT_EQ(result.of(TimeShare::Host), 0.25);
  EXPECT_EQ(result.total(), run.timeline.makespan_s);
}

// Does hidden communication cost nothing?
TEST(Breakdown, OverlappedCommunicationIsNotExposed) {
  HandRun run;
  const auto first = run.compute({.end_s = 1.0});
  run.collective(
      {.ready_s = 1.0, .end_s = 2.0, .stream = 3, .after = {first}, .kind = GroupKind::Data});
  run.compute({.ready_s = 1.0, .end_s = 4.0});
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Compute), 4.0);
  EXPECT_EQ(result.of(TimeShare::ExposedData), 0.0);
}

class ExposedKind : public ::testing::TestWithParam<std::pair<GroupKind, TimeShare>> {};

// Does exposed communication count under the kind of its group?
TEST_P(ExposedKind, TakesTheKindOfItsGroup) {
  HandRun run;
  const auto [kind, share] = GetParam();
  const auto first = run.compute({.end_s = 1.0});
  const auto reduce =
      run.collective({.ready_s = 1.0, .end_s = 3.0, .stream = 1, .after = {first}, .kind = kind});
  run.compute({.ready_s = 3.0, .end_s = 4.0, .after = {reduce}});
  EXPECT_EQ(of(run).of(share), 2.0);
  EXPECT_EQ(of(run).of(TimeShare::Compute), 2.0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExposedKind,
                         ::testing::Values(std::pair{GroupKind::Tensor, TimeShare::ExposedTensor},
                                           std::pair{GroupKind::Pipeline,
                                                     TimeShare::ExposedPipeline},
                                           std::pair{GroupKind::Data, TimeShare::ExposedData},
                                           std::pair{GroupKind::Expert, TimeShare::ExposedExpert},
                                           std::pair{GroupKind::Context, TimeShare::ExposedContext},
                                           std::pair{GroupKind::Other, TimeShare::ExposedOther}));

// Is a receive a bubble while its message has not been sent?
TEST(Breakdown, AReceiveBeforeItsSendIsABubble) {
  HandRun run;
  const auto first =
      run.recv({.start_s = 2.0, .end_s = 2.5, .stream = 2, .kind = GroupKind::Pipeline});
  run.compute({.ready_s = 2.5, .end_s = 4.0, .after = {first}});
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Bubble), 2.0);
  EXPECT_EQ(result.of(TimeShare::ExposedPipeline), 0.5);
  EXPECT_EQ(result.of(TimeShare::Compute), 1.5);
}

// Is a receive from a late member of another group waiting? A context rank waits here for the keys
// of its neighbour; there is no pipeline, thus no bubble.
TEST(Breakdown, ReceiveFromALateMemberOfAnotherGroupIsWaiting) {
  for (const GroupKind kind : {GroupKind::Context, GroupKind::Tensor, GroupKind::Data}) {
    HandRun run;
    const auto keys = run.recv({.start_s = 2.0, .end_s = 2.5, .stream = 2, .kind = kind});
    run.compute({.ready_s = 2.5, .end_s = 4.0, .after = {keys}});
    EXPECT_EQ(of(run).of(TimeShare::Waiting), 2.0);
    EXPECT_EQ(of(run).of(TimeShare::Bubble), 0.0);
  }
}

// Does a late member cause waiting?
TEST(Breakdown, ACollectiveWithALateRankIsWaiting) {
  HandRun run;
  const auto first = run.compute({.end_s = 1.0});
  const auto reduce = run.collective(
      {.ready_s = 1.0, .start_s = 1.75, .end_s = 2.0, .stream = 1, .after = {first}});
  run.compute({.ready_s = 2.0, .end_s = 3.0, .after = {reduce}});
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Waiting), 0.75);
  EXPECT_EQ(result.of(TimeShare::ExposedTensor), 0.25);
}

// Does a late receiver cause waiting? A send whose receiver is not ready yet has a late member too;
// it is not a bubble.
TEST(Breakdown, ASendToALateReceiverIsWaiting) {
  HandRun run;
  const auto first = run.compute({.end_s = 1.0});
  const auto out = run.send({.ready_s = 1.0,
                             .start_s = 3.0,
                             .end_s = 3.5,
                             .stream = 2,
                             .after = {first},
                             .kind = GroupKind::Pipeline});
  run.compute({.ready_s = 3.5, .end_s = 4.0, .after = {out}});
  EXPECT_EQ(of(run).of(TimeShare::Waiting), 2.0);
  EXPECT_EQ(of(run).of(TimeShare::Bubble), 0.0);
}

// Is a gap followed through a sequence of operations? recv [0 wait 2 move 3], then the tensor
// all_gather of the received data [3 wait 3.5 move 4.5], then compute.
TEST(Breakdown, AGapIsChargedAlongAChainOfDependencies) {
  HandRun run;
  const auto in =
      run.recv({.start_s = 2.0, .end_s = 3.0, .stream = 2, .kind = GroupKind::Pipeline});
  const auto gather =
      run.collective({.ready_s = 3.0, .start_s = 3.5, .end_s = 4.5, .stream = 1, .after = {in}});
  run.compute({.ready_s = 4.5, .end_s = 5.0, .after = {gather}});
  const auto spans = breakdown_spans(run.workload, run.partition, run.timeline, 0);
  ASSERT_EQ(spans.size(), 5U);
  EXPECT_EQ(spans[0].share, TimeShare::Bubble);
  EXPECT_EQ(spans[1].share, TimeShare::ExposedPipeline);
  EXPECT_EQ(spans[2].share, TimeShare::Waiting);
  EXPECT_EQ(spans[3].share, TimeShare::ExposedTensor);
  EXPECT_EQ(spans[4].share, TimeShare::Compute);
  EXPECT_EQ(spans[2].start_s, 3.0);
  EXPECT_EQ(spans[2].end_s, 3.5);
}

// Is the time in a stream's queue charged to the operation before? The second reduction waits for
// the first on their stream: that time belongs to the first one.
TEST(Breakdown, WaitingForTheStreamIsChargedToTheOperationBefore) {
  HandRun run;
  const auto first = run.compute({.end_s = 1.0});
  run.collective(
      {.ready_s = 1.0, .end_s = 3.0, .stream = 1, .after = {first}, .kind = GroupKind::Data});
  const auto second = run.collective(
      {.ready_s = 3.0, .end_s = 3.5, .stream = 1, .after = {first}, .kind = GroupKind::Tensor});
  run.compute({.ready_s = 3.5, .end_s = 4.0, .after = {second}});
  EXPECT_EQ(of(run).of(TimeShare::ExposedData), 2.0);
  EXPECT_EQ(of(run).of(TimeShare::ExposedTensor), 0.5);
}

// Does the last of several dependencies count? Of two dependencies, the one that ended last counts,
// back to the moment it began; the other one explains only the time before.
TEST(Breakdown, TheDependencyThatEndsLastIsCharged) {
  HandRun run;
  const auto early = run.collective({.end_s = 2.0, .stream = 3, .kind = GroupKind::Data});
  const auto late = run.collective({.ready_s = 1.0, .end_s = 3.0, .stream = 1, .after = {}});
  run.compute({.ready_s = 3.0, .end_s = 4.0, .after = {early, late}});
  EXPECT_EQ(of(run).of(TimeShare::ExposedTensor), 2.0);
  EXPECT_EQ(of(run).of(TimeShare::Host), 1.0);  // `late` had nothing before it
}

// Does the host lane delay the kernel?
TEST(Breakdown, AKernelThatIsIssuedLateIsChargedToTheHost) {
  HandRun run;
  run.workload.streams.emplace_back("host");
  const auto issue = run.delay({.end_s = 0.5, .stream = 4});
  run.compute({.ready_s = 0.5, .end_s = 1.0, .after = {issue}});
  EXPECT_EQ(of(run).of(TimeShare::Host), 0.5);
  EXPECT_EQ(of(run).of(TimeShare::Compute), 0.5);
}

// Is a kernel on another stream still work?
TEST(Breakdown, AKernelOnAnotherStreamIsComputation) {
  HandRun run;
  const auto copy = run.compute({.end_s = 0.5, .stream = 1});
  run.compute({.ready_s = 0.5, .end_s = 1.0, .after = {copy}});
  EXPECT_EQ(of(run).of(TimeShare::Compute), 1.0);
}

// Does communication on the compute stream block it?
TEST(Breakdown, CommunicationOnTheComputeStreamBlocksIt) {
  HandRun run;
  run.compute({.end_s = 1.0});
  run.recv({.ready_s = 1.0, .start_s = 2.0, .end_s = 2.5, .kind = GroupKind::Pipeline});
  run.compute({.ready_s = 2.5, .end_s = 3.0});
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Bubble), 1.0);
  EXPECT_EQ(result.of(TimeShare::ExposedPipeline), 0.5);
  EXPECT_EQ(result.of(TimeShare::Compute), 1.5);
}

// Is the tail communication, then idle time? After its last kernel a rank still gathers parameters;
// then it is idle until the slowest rank is done.
TEST(Breakdown, TheTailIsCommunicationThenIdle) {
  HandRun run(2);
  const auto last = run.compute({.end_s = 1.0});
  run.collective({.ready_s = 1.0,
                  .start_s = 1.5,
                  .end_s = 2.0,
                  .stream = 3,
                  .after = {last},
                  .kind = GroupKind::Data});
  run.compute({.end_s = 3.0}, 1);
  const Breakdown result = of(run);
  EXPECT_EQ(result.of(TimeShare::Compute), 1.0);
  EXPECT_EQ(result.of(TimeShare::Waiting), 0.5);
  EXPECT_EQ(result.of(TimeShare::ExposedData), 0.5);
  EXPECT_EQ(result.of(TimeShare::Idle), 1.0);
  EXPECT_EQ(result.total(), 3.0);
}

// Is a rank without work idle?
TEST(Breakdown, ARankWithoutWorkIsIdle) {
  HandRun run(2);
  run.compute({.end_s = 2.0}, 1);
  EXPECT_EQ(of(run, 0).of(TimeShare::Idle), 2.0);
  EXPECT_EQ(of(run, 1).of(TimeShare::Compute), 2.0);
}

// Is the bubble of GPipe the textbook fraction?
TEST(Breakdown, GpipeBubbleIsTheTextbookFraction) {
  // Two stages, two microbatches, forward 1 s and backward 2 s, free transfers: the bubble is
  // (p-1)/m of the busy time.
  HandRun run(2);
  run.compute({.ready_s = 0.0, .end_s = 1.0});
  run.compute({.ready_s = 1.0, .end_s = 2.0});
  const auto back1 =
      run.recv({.start_s = 5.0, .end_s = 5.0, .stream = 2, .kind = GroupKind::Pipeline});
  run.compute({.ready_s = 5.0, .end_s = 7.0, .after = {back1}});
  const auto back2 = run.recv(
      {.ready_s = 5.0, .start_s = 7.0, .end_s = 7.0, .stream = 2, .kind = GroupKind::Pipeline});
  run.compute({.ready_s = 7.0, .end_s = 9.0, .after = {back2}});
  EXPECT_EQ(of(run).of(TimeShare::Bubble), 3.0);
  EXPECT_EQ(of(run).of(TimeShare::Bubble) / of(run).of(TimeShare::Compute), 0.5);
}

// A random program, executed by the rules of workload.hpp with random durations and random late
// partners.
HandRun random_run(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  const auto time = [&random] { return static_cast<double>(random() % 1000) / 977.0; };
  HandRun run;
  std::array<double, 4> stream_end{};
  std::vector<double> ends;
  for (OpIndex op = 0; op < 200; ++op) {
    HandOp made;
    made.stream = static_cast<std::uint8_t>(pick(4));
    made.ready_s = stream_end[made.stream];
    for (std::uint32_t i = 0; op > 0 && i < pick(3); ++i) {
      made.after.push_back(pick(op));
      made.ready_s = std::max(made.ready_s, ends[made.after.back()]);
    }
    const bool work = made.stream == 0 || pick(8) == 0;
    made.start_s = made.ready_s + (work ? 0.0 : time() * pick(2));
    made.end_s = *made.start_s + time();
    made.kind = static_cast<GroupKind>(pick(6));
    if (work) {
      pick(6) == 0 ? run.delay(made) : run.compute(made);
    } else {
      pick(2) == 0 ? run.collective(made) : run.recv(made);
    }
    ends.push_back(made.end_s);
    stream_end[made.stream] = made.end_s;
  }
  run.timeline.makespan_s += time();
  return run;
}

// Do the shares sum to the step for any program?
TEST(Breakdown, SharesSumToTheStepForAnyProgram) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const HandRun run = random_run(seed);
    const double step_s = run.timeline.makespan_s;
    EXPECT_NEAR(of(run).total(), step_s, 1e-12 * step_s) << "seed " << seed;
    double cursor_s = 0.0;
    for (const ShareSpan& span : breakdown_spans(run.workload, run.partition, run.timeline, 0)) {
      EXPECT_EQ(span.start_s, cursor_s) << "seed " << seed;
      EXPECT_GT(span.end_s, span.start_s) << "seed " << seed;
      cursor_s = span.end_s;
    }
    EXPECT_EQ(cursor_s, step_s) << "seed " << seed;
  }
}

// Are the keys those of the result?
TEST(Breakdown, KeysAreThoseOfTheResult) {
  EXPECT_EQ(to_string(TimeShare::ExposedTensor), "exposed_tensor");
  EXPECT_EQ(to_string(TimeShare::Idle), "idle");
}

}  // namespace
}  // namespace trainyard
