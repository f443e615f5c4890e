// DualPipe and DualPipeV against the authors' order and bubble (oracle 35).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/schedules/play.hpp"

namespace trainyard {
namespace {

using namespace test;

// A list as the authors write it, "F0 F1' F3&B1'": a prime marks the reverse direction, whose
// microbatches are counted from 0.
std::string dual_text(const std::vector<ScheduleStep>& list, const PipelineShape& shape) {
  std::string text;
  bool joined = true;
  for (const ScheduleStep& step : list) {
    constexpr std::array kLetters = {'F', 'B', 'b', 'w'};
    if (!joined) text += ' ';
    text += kLetters[static_cast<std::size_t>(step.kind)];
    text += std::to_string(step.microbatch - (step.chunk == 1 ? shape.microbatches / 2 : 0));
    if (step.chunk == 1) text += '\'';
    if (step.overlapped) text += '&';
    joined = step.overlapped;
  }
  return text;
}

// Is the order of DualPipe the published one?
TEST(DualPipe, PublishedOrder) {
  const PipelineShape shape{.stages = 4, .microbatches = 8, .chunks = 2};
  const ScheduleLists lists = all_steps(*find_schedule("dualpipe"), shape);
  EXPECT_EQ(dual_text(lists[0], shape),
            "F0 F1 F2 F0' b0' w0' F1' F3&B1' F2'&B0 B2' F3'&B1 B3' b2 w2 b3 w3");
  EXPECT_EQ(dual_text(lists[1], shape),
            "F0 F0' F1 F1' F2 B0' F2'&B0 F3&B1' F3'&B1 B2' B2 b3' b3 w3' w3");
  EXPECT_EQ(dual_text(lists[2], shape),
            "F0' F0 F1' F1 F2' B0 F2&B0' F3'&B1 F3&B1' B2 B2' b3 b3' w3 w3'");
  EXPECT_EQ(dual_text(lists[3], shape),
            "F0' F1' F2' F0 b0 w0 F1 F3'&B1 F2&B0' B2 F3&B1' B3 b2' w2' b3' w3'");
}

struct Published {
  std::int64_t stages = 0;
  std::int64_t microbatches = 0;
  double makespan_s = 0.0;
  double bubble_s = 0.0;
};

// Are the times of DualPipe the published ones?
TEST(DualPipe, PublishedTimes) {
  for (const Published& row : {Published{8, 20, 66, 6}, Published{4, 8, 26, 2},
                               Published{4, 12, 38, 2}, Published{16, 64, 206, 14}}) {
    const PlayedSchedule played = play_costs(
        "dualpipe", {.stages = row.stages, .microbatches = row.microbatches, .chunks = 2});
    EXPECT_DOUBLE_EQ(played.makespan_s, row.makespan_s) << row.stages;
    for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
      EXPECT_DOUBLE_EQ(played.makespan_s - played.busy_s[rank], row.bubble_s) << rank;
      EXPECT_EQ(played.peak_activations[rank], row.stages + 1) << rank;
    }
  }
}

// Does overlap reduce the makespan as expected?
TEST(DualPipe, OverlapGains) {
  const PlayedSchedule played =
      play_costs("dualpipe", {.stages = 8, .microbatches = 20, .chunks = 2}, {}, 2.6 / 3.0);
  EXPECT_NEAR(played.makespan_s, 60.4, 1e-9 * 60.4);
  std::vector<std::int64_t> pairs;
  for (const auto& steps : played.ranks) {
    pairs.push_back(std::count_if(steps.begin(), steps.end(),
                                  [](const PlayedStep& step) { return step.step.overlapped; }));
  }
  EXPECT_EQ(pairs, (std::vector<std::int64_t>{9, 10, 11, 11, 11, 11, 10, 9}));
}

// Are bubble and memory of DualPipeV those of the formula? The bubble is (p/2-1)(F&B + Bt - 3W)
// with p = stages, on p/2 ranks; at most stages + 1 half-size activations.
TEST(DualPipeV, BubbleAndMemory) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * ranks, 3 * ranks, 5 * ranks + 1}) {
      const PlayedSchedule played =
          play_costs("dualpipe_v", {.stages = ranks, .microbatches = m, .chunks = 2});
      const double bubble = static_cast<double>((ranks - 1) * (3 + 2 - 3));
      EXPECT_DOUBLE_EQ(played.makespan_s, static_cast<double>(6 * m) + bubble) << ranks << " " << m;
      for (const std::int64_t peak : played.peak_activations) EXPECT_LE(peak, 2 * ranks + 1);
    }
  }
}

// Is DualPipeV one half of DualPipe? Rank r of p / 2 ranks with m / 2 microbatches then has the
// list of rank r of DualPipe on p ranks with m microbatches, whose second direction counts from m /
// 2.
TEST(DualPipeV, IsOneHalfOfDualPipe) {
  std::size_t compared = 0;
  for (const std::int64_t p : {2, 4, 6, 8, 16}) {
    for (const std::int64_t m : {2 * p, 2 * p + 2, 4 * p}) {
      const PipelineShape both{.stages = p, .microbatches = m, .chunks = 2};
      const PipelineShape one{.stages = p / 2, .microbatches = m / 2, .chunks = 2};
      const ScheduleLists dualpipe = all_steps(*find_schedule("dualpipe"), both);
      const ScheduleLists half = all_steps(*find_schedule("dualpipe_v"), one);
      ASSERT_EQ(half.size(), static_cast<std::size_t>(p / 2));
      for (std::size_t rank = 0; rank < half.size(); ++rank, ++compared) {
        PipelineShape from_zero = one;
        from_zero.microbatches = 0;  // both directions of dualpipe_v count from 0
        EXPECT_EQ(dual_text(half[rank], from_zero), dual_text(dualpipe[rank], both))
            << p << " " << m << " rank " << rank;
      }
    }
  }
  EXPECT_EQ(compared, 3U * (1 + 2 + 3 + 4 + 8));
}

// Are unsupported shapes refused?
TEST(DualPipe, Refusals) {
  EXPECT_EQ(*find_schedule("dualpipe")->refusal({.stages = 3, .microbatches = 8, .chunks = 2}),
            "dualpipe needs an even number of stages, not 3; dualpipe_v takes any");
  EXPECT_EQ(*find_schedule("dualpipe")->refusal({.stages = 4, .microbatches = 6, .chunks = 2}),
            "dualpipe needs an even number of microbatches, at least twice the 4 stages, not 6; "
            "choose 8 or more");
  EXPECT_EQ(*find_schedule("dualpipe_v")->refusal({.stages = 4, .microbatches = 6, .chunks = 2}),
            "dualpipe_v needs at least 8 microbatches for 4 stages, not 6");
}

}  // namespace
}  // namespace trainyard
