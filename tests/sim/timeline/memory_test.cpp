#include "sim/timeline/memory.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/sim/timeline/hand_run.hpp"

namespace trainyard {
namespace {

constexpr std::uint16_t kActivations = 1;

MemoryPeak peak_of(const HandRun& run) {
  return memory_peak(run.workload, run.partition, run.timeline, 0);
}

// Is resident memory the minimum?
TEST(Memory, ResidentMemoryIsTheFloor) {
  HandRun run;
  run.resident(100);
  run.resident(20, kActivations);
  run.compute({.end_s = 1.0});
  const MemoryPeak peak = peak_of(run);
  EXPECT_EQ(peak.bytes, 120);
  EXPECT_EQ(peak.at_s, 0.0);
  EXPECT_EQ(peak.operation, kNone);
  EXPECT_EQ(peak.by_category, (std::vector<std::int64_t>{100, 20}));
}

// Does the peak name its moment and its operation?
TEST(Memory, PeakNamesItsMomentAndItsOperation) {
  HandRun run;
  run.resident(100);
  run.compute({.end_s = 1.0, .effects = {{.bytes = 50, .category = kActivations}}});
  run.compute({.ready_s = 1.0, .end_s = 2.0, .effects = {{.at_end = true, .bytes = 30}}});
  run.compute({.ready_s = 2.0,
               .end_s = 3.0,
               .effects = {{.at_end = true, .bytes = -50, .category = kActivations}}});
  const MemoryPeak peak = peak_of(run);
  EXPECT_EQ(peak.bytes, 180);
  EXPECT_EQ(peak.at_s, 2.0);
  EXPECT_EQ(peak.operation, 1U);
  EXPECT_EQ(peak.by_category, (std::vector<std::int64_t>{130, 50}));
}

// Do frees come before allocations at the same instant? The kernel after may use a block that the
// kernel before has freed: there is no false peak between them.
TEST(Memory, FreesComeBeforeAllocationsAtOneInstant) {
  HandRun run;
  run.compute({.end_s = 1.0, .effects = {{.bytes = 50}, {.at_end = true, .bytes = -50}}});
  run.compute(
      {.ready_s = 1.0, .end_s = 2.0, .effects = {{.bytes = 50}, {.at_end = true, .bytes = -50}}});
  EXPECT_EQ(peak_of(run).bytes, 50);
  const auto changes = memory_changes(run.workload, run.partition, run.timeline, 0);
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_EQ(changes[1].bytes, -50);
  EXPECT_EQ(changes[2].bytes, 50);
  EXPECT_EQ(changes[2].operation, 1U);
}

// Is the first of equal peaks reported?
TEST(Memory, TheFirstOfEqualPeaksIsReported) {
  HandRun run;
  run.compute({.end_s = 1.0, .effects = {{.bytes = 50}, {.at_end = true, .bytes = -50}}});
  run.compute(
      {.ready_s = 2.0, .end_s = 3.0, .effects = {{.bytes = 50}, {.at_end = true, .bytes = -50}}});
  EXPECT_EQ(peak_of(run).at_s, 0.0);
}

// Do communication buffers live while the data moves?
TEST(Memory, CommunicationBuffersLiveWhileItMoves) {
  HandRun run;
  run.collective({.ready_s = 0.0,
                  .start_s = 1.0,
                  .end_s = 2.0,
                  .stream = 1,
                  .effects = {{.bytes = 10}, {.at_end = true, .bytes = -10}}});
  const auto curve = memory_curve(run.workload, run.partition, run.timeline, 0);
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_EQ(curve[1].time_s, 1.0);
  EXPECT_EQ(curve[1].by_category[0], 10);
  EXPECT_EQ(curve[2].by_category[0], 0);
}

// 1F1B by hand: `stages` ranks, `microbatches`, forward and backward one second each, free
// transfers. A stage holds an activation from the start of a forward to the end of its backward.
HandRun one_f_one_b(std::int64_t stages, std::int64_t microbatches, std::int64_t activation) {
  HandRun run(static_cast<std::uint32_t>(stages));
  std::vector<std::vector<double>> forward_end(static_cast<std::size_t>(stages)),
      backward_end = forward_end;
  for (auto& row : forward_end) row.assign(static_cast<std::size_t>(microbatches), -1.0);
  backward_end = forward_end;
  std::vector<double> free_at(static_cast<std::size_t>(stages), 0.0);
  std::vector<std::int64_t> forwards(static_cast<std::size_t>(stages), 0), backwards = forwards;
  for (std::int64_t done = 0; done < 2 * stages * microbatches;) {
    for (std::size_t stage = 0; stage < forwards.size(); ++stage) {
      const auto warmup = std::min(microbatches, stages - static_cast<std::int64_t>(stage));
      std::int64_t& next_forward = forwards[stage];
      std::int64_t& next_backward = backwards[stage];
      const bool is_forward = next_forward < microbatches && next_forward - next_backward < warmup;
      const auto microbatch = static_cast<std::size_t>(is_forward ? next_forward : next_backward);
      if (microbatch == static_cast<std::size_t>(microbatches)) continue;
      const bool edge = is_forward ? stage == 0 : stage + 1 == forwards.size();
      const double input =
          edge ? (is_forward ? 0.0 : forward_end[stage][microbatch])
               : (is_forward ? forward_end[stage - 1] : backward_end[stage + 1])[microbatch];
      if (input < 0.0) continue;
      const double start = std::max(free_at[stage], input);
      const std::int64_t change = is_forward ? activation : -activation;
      run.compute({.ready_s = start,
                   .end_s = start + 1.0,
                   .effects = {{.at_end = !is_forward, .bytes = change, .category = kActivations}}},
                  static_cast<std::uint32_t>(stage));
      (is_forward ? forward_end : backward_end)[stage][microbatch] = free_at[stage] = start + 1.0;
      ++(is_forward ? next_forward : next_backward);
      ++done;
    }
  }
  return run;
}

// Does 1F1B hold exactly static + min(m, p - r) activations on stage r (oracle 59)?
TEST(Memory, OneForwardOneBackwardHoldsTheAnalyticMultiple) {
  constexpr std::int64_t kActivation =
      281280512;  // one layer of Llama-3 70B: sb(8h + 4q + 4k + 6f + 4a) / 8, s = 8192
  constexpr std::int64_t kStatic = 17036574720;
  for (const std::int64_t microbatches : {2, 4, 16}) {
    HandRun run = one_f_one_b(4, microbatches, kActivation);
    for (std::uint32_t stage = 0; stage < 4; ++stage) {
      run.resident(kStatic, 0, stage);
      const MemoryPeak peak = memory_peak(run.workload, run.partition, run.timeline, stage);
      const std::int64_t in_flight = std::min<std::int64_t>(microbatches, 4 - stage);
      EXPECT_EQ(peak.bytes, kStatic + in_flight * kActivation)
          << "stage " << stage << " m " << microbatches;
    }
  }
}

// Does the curve of every category end where it began (oracle 60)?
TEST(Memory, EveryAllocationOfAStepIsFreed) {
  const HandRun run = one_f_one_b(4, 8, 1000);
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(unreturned_bytes(run.workload, run.workload.programs[stage]),
              (std::vector<std::int64_t>{0, 0}));
    const auto curve = memory_curve(run.workload, run.partition, run.timeline, stage);
    EXPECT_EQ(curve.back().by_category, resident_bytes(run.workload, run.workload.programs[stage]));
  }
}

// Does a leak show in its category?
TEST(Memory, ALeakIsSeenInItsCategory) {
  HandRun run;
  run.compute({.end_s = 1.0, .effects = {{.bytes = 8}, {.bytes = 5, .category = kActivations}}});
  run.compute({.ready_s = 1.0, .end_s = 2.0, .effects = {{.at_end = true, .bytes = -8}}});
  EXPECT_EQ(unreturned_bytes(run.workload, run.workload.programs[0]),
            (std::vector<std::int64_t>{0, 5}));
}

}  // namespace
}  // namespace trainyard
