// The zero-bubble schedules against their published orders, times and memory (oracles 31, 33-35,
// 37, 39).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "models/schedules/generators.hpp"
#include "tests/models/schedules/play.hpp"

namespace trainyard {
namespace {

using namespace test;
using Peaks = std::vector<std::int64_t>;

std::vector<std::string> orders(const std::string& name, const PipelineShape& shape) {
  std::vector<std::string> all;
  for (const auto& list : all_steps(*find_schedule(name), shape)) all.push_back(letters(list));
  return all;
}

std::int64_t highest(const Peaks& peaks) { return *std::max_element(peaks.begin(), peaks.end()); }

// Is the order of ZB-H1 the published one?
TEST(ZbH1, PublishedOrder) {
  EXPECT_EQ(orders("zb_h1", {.stages = 4, .microbatches = 8}),
            (std::vector<std::string>{"FFFFBWFBWFBWFBWFBWBWBWBW", "FFFBFBWFBWFBWFBWFBWBWBWW",
                                      "FFBFBFBWFBWFBWFBWFBWBWWW", "FBFBFBFBWFBWFBWFBWFBWWWW"}));
}

// Are time and memory of ZB-H1 the published ones?
TEST(ZbH1, TimeAndMemory) {
  const PlayedSchedule four = play_costs("zb_h1", {.stages = 4, .microbatches = 8});
  EXPECT_DOUBLE_EQ(four.makespan_s, 27.0);
  EXPECT_EQ(four.peak_activations, (Peaks{4, 4, 4, 4}));
  EXPECT_DOUBLE_EQ(play_costs("zb_h1", {.stages = 8, .microbatches = 16}).makespan_s, 55.0);
  EXPECT_NEAR(play_costs("zb_h1", {.stages = 4, .microbatches = 8},
                         {.forward_s = 1.0, .input_s = 1.2, .weight_s = 0.8})
                  .makespan_s,
              28.2, 1e-9 * 28.2);
  EXPECT_DOUBLE_EQ(
      play_costs("zb_h1", {.stages = 4, .microbatches = 8}, {.transfer_s = 0.25}).makespan_s, 30.0);
}

// Is the makespan of ZB-H1 m(F+B+W) + (p-1)(F+B-W), and 4(p-1)c more for messages of c if m >= 2p?
TEST(ZbH1, ClosedForm) {
  for (const std::int64_t p : {2, 3, 4, 6, 8}) {
    for (const std::int64_t m : {2 * p, 2 * p + 1, 4 * p}) {
      const PipelineShape shape{.stages = p, .microbatches = m};
      const double wanted = static_cast<double>(3 * m + (p - 1));
      EXPECT_NEAR(play_costs("zb_h1", shape).makespan_s, wanted, 1e-9) << p << " " << m;
      EXPECT_NEAR(play_costs("zb_h1", shape, {.transfer_s = 0.01}).makespan_s,
                  wanted + 4.0 * static_cast<double>(p - 1) * 0.01, 1e-9)
          << p << " " << m;
    }
  }
}

// Does one microbatch take p(F+B) + W + 2(p-1)c?
TEST(ZbH1, OneMicrobatch) {
  const PlayedSchedule alone =
      play_costs("zb_h1", {.stages = 4, .microbatches = 1},
                 {.forward_s = 1.0, .input_s = 1.5, .weight_s = 0.75, .transfer_s = 0.25});
  EXPECT_DOUBLE_EQ(alone.makespan_s, 4 * 2.5 + 0.75 + 6 * 0.25);
}

// Is the order of ZB-H2 the published one?
TEST(ZbH2, PublishedOrder) {
  EXPECT_EQ(orders("zb_h2", {.stages = 4, .microbatches = 8}),
            (std::vector<std::string>{"FFFFFFFBFWBWBWBWBWBWBWBW", "FFFFFBFBFBFBWBWBWBWBWWWW",
                                      "FFFBFBFBFBFBFBWBWBWWWWWW", "FBFBFBFBFBFBFBFBWWWWWWWW"}));
}

// Is ZB-H2 without a bubble within a rank? No rank idles between its first and last step; the ranks
// are staggered by (p-1)F.
TEST(ZbH2, NoBubbleWithinARank) {
  for (const std::int64_t p : {1, 2, 3, 4, 6, 8}) {
    for (const std::int64_t m : {2 * p, 3 * p, 5 * p + 1}) {
      const PlayedSchedule played = play_costs("zb_h2", {.stages = p, .microbatches = m});
      EXPECT_DOUBLE_EQ(played.makespan_s, static_cast<double>(3 * m + p - 1)) << p << " " << m;
      EXPECT_LE(highest(played.peak_activations), 2 * p);
      for (const auto& steps : played.ranks) {
        EXPECT_DOUBLE_EQ(steps.back().end_s - steps.front().start_s, static_cast<double>(3 * m))
            << p << " " << m;
      }
    }
  }
}

// Are time and memory of ZB-V the published ones?
TEST(ZbV, PublishedTimesAndMemory) {
  EXPECT_DOUBLE_EQ(play_costs("zb_v", {.stages = 4, .microbatches = 8, .chunks = 2}).makespan_s,
                   51.0);
  EXPECT_DOUBLE_EQ(play_costs("zb_v", {.stages = 4, .microbatches = 12, .chunks = 2}).makespan_s,
                   75.0);
  EXPECT_DOUBLE_EQ(play_costs("zb_v", {.stages = 2, .microbatches = 4, .chunks = 2}).makespan_s,
                   25.0);
  EXPECT_EQ(play_costs("zb_v", {.stages = 4, .microbatches = 8, .chunks = 2}).peak_activations,
            (Peaks{8, 8, 8, 8}));
}

// Does ZB-V lose only the stagger of the ranks?
TEST(ZbV, OnlyTheStaggerIsLost) {
  for (const std::int64_t p : {2, 3, 4, 6, 8, 16}) {
    const PipelineShape shape{.stages = p, .microbatches = 2 * p, .chunks = 2};
    const PlayedSchedule played = play_costs("zb_v", shape);
    EXPECT_LE(played.makespan_s, static_cast<double>(12 * p + p)) << p;
    EXPECT_LE(highest(played.peak_activations), 2 * p) << p;
  }
}

// Is the loss of ZB-V independent of the number of microbatches if F, B and W differ? With B the
// longest, a rank waits one B for each rank before it, however long the step is.
TEST(ZbV, UnequalTimesCostNothingPerMicrobatch) {
  const StepCosts costs{.forward_s = 1.0, .input_s = 1.6, .weight_s = 0.9};
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * p - 1, 2 * p, 3 * p, 4 * p, 8 * p}) {
      const PipelineShape shape{.stages = p, .microbatches = m, .chunks = 2};
      const PlayedSchedule played = play_costs("zb_v", shape, costs);
      const double work = 7.0 * static_cast<double>(m);
      EXPECT_NEAR(played.makespan_s - work, 1.6 * static_cast<double>(p - 1), 1e-9)
          << p << " " << m;
      EXPECT_LE(highest(played.peak_activations), 2 * p) << p << " " << m;
    }
  }
}

// Does a step with fewer microbatches never take longer? The order that is best at equal times once
// took 61 ms for six microbatches of a model and 50 ms for seven.
TEST(ZbV, AMicrobatchLessNeverTakesLonger) {
  for (const StepCosts& costs : {StepCosts{.forward_s = 1.0, .input_s = 1.6, .weight_s = 0.9},
                                 StepCosts{.forward_s = 1.0, .input_s = 2.4, .weight_s = 0.5},
                                 StepCosts{.forward_s = 1.0, .input_s = 1.0, .weight_s = 1.0}}) {
    for (const std::int64_t p : {2, 3, 4, 6, 8}) {
      double before = 0.0;
      for (std::int64_t m = 1; m <= 2 * p; ++m) {
        const PipelineShape shape{.stages = p, .microbatches = m, .chunks = 2};
        const PlayedSchedule played = play_costs("zb_v", shape, costs);
        EXPECT_GT(played.makespan_s, before) << p << " " << m << " " << costs.input_s;
        EXPECT_LE(highest(played.peak_activations), 2 * p) << p << " " << m;
        before = played.makespan_s;
      }
    }
  }
}

// Do V-Half and V-Min reach half and a third of the memory? 1F1B has a bubble of 6(p-1) in steps of
// a chunk, and rank 0 holds 2p half-size activations. V-Half has half of both, V-Min two thirds of
// the bubble and a third of the memory, each except for a few steps.
TEST(ControllableMemory, HalfAndThird) {
  for (const std::int64_t p : {4, 6, 8, 12, 16}) {
    for (const std::int64_t m : {2 * p, 4 * p}) {
      const PipelineShape shape{.stages = p, .microbatches = m, .chunks = 2};
      const auto bubble_1f1b = static_cast<double>(6 * (p - 1));
      const auto work = static_cast<double>(6 * m);
      const PlayedSchedule half = play_costs("v_half", shape);
      const PlayedSchedule third = play_costs("v_min", shape);
      EXPECT_LE(highest(half.peak_activations), p + 3) << p << " " << m;
      EXPECT_LE(half.makespan_s - work, bubble_1f1b / 2.0 + 4.0) << p << " " << m;
      EXPECT_LE(highest(third.peak_activations), 2 * p / 3 + 3) << p << " " << m;
      EXPECT_LE(third.makespan_s - work, bubble_1f1b * 2.0 / 3.0 + 2.0) << p << " " << m;
    }
  }
}

// Is the worked example reproduced?
TEST(ControllableMemory, WorkedExample) {
  const PipelineShape shape{.stages = 4, .microbatches = 8, .chunks = 2};
  const PlayedSchedule half = play_costs("v_half", shape);
  EXPECT_DOUBLE_EQ(half.makespan_s, 57.0);
  EXPECT_EQ(highest(half.peak_activations), 6);
  const PlayedSchedule third = play_costs("v_min", shape);
  EXPECT_DOUBLE_EQ(third.makespan_s, 59.0);
  EXPECT_EQ(highest(third.peak_activations), 4);
}

// Does a further microbatch add its work and nothing else once the pipeline is full? Blocks are
// compared on steps of 4p microbatches for this reason.
TEST(ControllableMemory, AFullPipelineGrowsByTheWorkOfAMicrobatch) {
  std::size_t cases = 0;
  for (const char* name : {"v_half", "v_min"}) {
    for (const std::int64_t p : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16}) {
      const auto played = [&](std::int64_t m) {
        return play_costs(name, {.stages = p, .microbatches = m, .chunks = 2});
      };
      const PlayedSchedule full = played(4 * p);
      for (const std::int64_t m : {4 * p + 1, 5 * p + 1, 9 * p}) {
        const PlayedSchedule longer = played(m);
        EXPECT_DOUBLE_EQ(longer.makespan_s - full.makespan_s, static_cast<double>(6 * (m - 4 * p)))
            << name << " p " << p << " m " << m;
        EXPECT_EQ(longer.peak_activations, full.peak_activations) << name << " p " << p;
        ++cases;
      }
    }
  }
  EXPECT_EQ(cases, 2U * 12U * 3U);
}

// What does one more microbatch cost if the steps of a chunk differ in length? With v_half it costs
// only its work, on any number of stages. With v_min the three forwards or backwards of a round
// follow each other around the ranks (Qi et al. 2405.15362: a bubble of O(n) then), as in the
// published block.
TEST(ControllableMemory, StepsOfUnequalLength) {
  const auto growth = [](const char* name, std::int64_t p, double f, double b, double w) {
    const auto makespan = [&](std::int64_t m) {
      const PipelineShape shape =
          placed(*find_schedule(name), {.stages = p, .microbatches = m, .chunks = 2});
      const auto ranks = static_cast<std::size_t>(p);
      const StepDurations durations{.forward_s = std::vector<double>(ranks, f),
                                    .backward_s = std::vector<double>(ranks, b + w),
                                    .weight_s = std::vector<double>(ranks, w)};
      return play_schedule(all_steps(*find_schedule(name), shape), shape, durations).makespan_s;
    };
    return (makespan(12 * p) - makespan(6 * p)) / static_cast<double>(6 * p);
  };
  for (const auto& [f, b, w] : {std::array{1.0, 1.2, 0.8}, std::array{1.2, 1.0, 0.8},
                                std::array{1.0, 0.8, 1.2}, std::array{1.0, 1.2, 1.2}}) {
    for (const std::int64_t p : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16})
      EXPECT_NEAR(growth("v_half", p, f, b, w), f + b + w, 1e-9) << p << " " << f << " " << b;
    for (const std::int64_t p : {4, 6, 7, 8, 9})
      EXPECT_NEAR(growth("v_min", p, f, b, w), std::max({f + b + w, 3.0 * f, 3.0 * b}), 1e-9)
          << p << " " << f << " " << b;
  }
}

// Does zb_auto equal the manual schedules? A limit of p takes the time of ZB-H1, one of 2p that of
// ZB-H2, and the limit is kept.
TEST(ZbAuto, EqualsTheHandMadeSchedules) {
  for (const std::int64_t p : {2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * p, 4 * p}) {
      const PipelineShape shape{.stages = p, .microbatches = m};
      const PlayedSchedule one = play_costs("zb_auto", shape);
      EXPECT_DOUBLE_EQ(one.makespan_s, static_cast<double>(3 * m + p - 1)) << p << " " << m;
      EXPECT_LE(highest(one.peak_activations), p);
      PipelineShape twice = shape;
      twice.activation_limit = 2 * p;
      const PlayedSchedule two = play_costs("zb_auto", twice);
      EXPECT_DOUBLE_EQ(two.makespan_s, play_costs("zb_h2", shape).makespan_s) << p << " " << m;
      EXPECT_LE(highest(two.peak_activations), 2 * p);
    }
  }
}

// Is no schedule written by hand better than zb_auto where its memory is allowed (ZB-H1 holds p
// activations, ZB-H2 2p)? It is longer, or as long with no less waiting between the first and the
// last step of the ranks.
TEST(ZbAuto, NoScheduleWrittenByHandIsBetter) {
  const auto waiting = [](const PlayedSchedule& played) {
    double sum = 0.0;
    for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
      const std::vector<PlayedStep>& steps = played.ranks[rank];
      sum += steps.back().end_s - steps.front().start_s - played.busy_s[rank];
    }
    return sum;
  };
  std::size_t as_long = 0;
  for (const std::int64_t p : {2, 3, 4}) {
    for (const std::int64_t m : {2, 4, 5, 6, 7}) {
      for (const double input_s : {1.0, 1.5}) {
        for (const double transfer_s : {0.0, 0.125}) {
          const StepCosts costs{.input_s = input_s, .transfer_s = transfer_s};
          for (const std::int64_t copies : {1, 2}) {
            const PipelineShape shape{
                .stages = p, .microbatches = m, .activation_limit = copies * p};
            const PlayedSchedule planned = play_costs("zb_auto", shape, costs);
            const PlayedSchedule by_hand =
                play_costs(copies == 1 ? "zb_h1" : "zb_h2", shape, costs);
            EXPECT_LE(planned.makespan_s, by_hand.makespan_s) << p << " " << m << " " << input_s;
            if (planned.makespan_s < by_hand.makespan_s) continue;
            EXPECT_LE(waiting(planned), waiting(by_hand) + 1e-9) << p << " " << m << " " << input_s;
            ++as_long;
          }
        }
      }
    }
  }
  EXPECT_GT(as_long, 60U);
}

StepDurations random_durations(std::mt19937& random, std::int64_t stages) {
  StepDurations durations;
  const auto draw = [&random] { return 0.5 + static_cast<double>(random() % 100) / 50.0; };
  for (std::int64_t rank = 0; rank < stages; ++rank) {
    durations.forward_s.push_back(draw());
    durations.weight_s.push_back(draw());
    durations.backward_s.push_back(durations.weight_s.back() + draw());
  }
  durations.transfer_s = static_cast<double>(random() % 4) / 16.0;
  return durations;
}

// Is zb_auto legal with random times for each stage? It stays within its limit and above the bounds
// of oracle 39; more memory never makes it slower by more than a step, and it is never slower than
// 1F1B by more than a step.
TEST(ZbAuto, RandomTimes) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    PipelineShape shape{.stages = 2 + static_cast<std::int64_t>(random() % 6),
                        .microbatches = 1 + static_cast<std::int64_t>(random() % 16)};
    const StepDurations durations = random_durations(random, shape.stages);
    double critical = 2.0 * static_cast<double>(shape.stages - 1) * durations.transfer_s;
    double busiest = 0.0;
    for (std::size_t rank = 0; rank < durations.forward_s.size(); ++rank) {
      const double input = durations.backward_s[rank] - durations.weight_s[rank];
      critical += durations.forward_s[rank] + input;
      busiest = std::max(busiest, static_cast<double>(shape.microbatches) *
                                      (durations.forward_s[rank] + durations.backward_s[rank]));
    }
    for (const std::int64_t limit : {shape.stages, 2 * shape.stages}) {
      shape.activation_limit = limit;
      const ScheduleLists lists = zero_bubble_lists(shape, durations);
      ASSERT_EQ(check_schedule(lists, shape), std::nullopt);
      const PlayedSchedule played = play_schedule(lists, shape, durations);
      EXPECT_LE(highest(played.peak_activations), limit);
      EXPECT_GE(played.makespan_s, critical - 1e-9);
      EXPECT_GE(played.makespan_s, busiest - 1e-9);
      const PipelineShape plain{.stages = shape.stages, .microbatches = shape.microbatches};
      const double plain_s =
          play_schedule(all_steps(*find_schedule("1f1b"), plain), plain, durations).makespan_s;
      EXPECT_LE(played.makespan_s, plain_s * 1.02) << trial << " limit " << limit;
    }
  }
}

// Is a tight memory limit slower, and kept?
TEST(ZbAuto, TightMemoryIsSlowerAndKept) {
  double before = 1e9;
  for (const std::int64_t limit : {1, 2, 3, 4, 8}) {
    const PlayedSchedule played =
        play_costs("zb_auto", {.stages = 4, .microbatches = 8, .activation_limit = limit});
    EXPECT_LE(highest(played.peak_activations), limit);
    EXPECT_LE(played.makespan_s, before);
    before = played.makespan_s;
  }
  EXPECT_DOUBLE_EQ(before, 27.0);
}

// Are unsupported shapes refused?
TEST(ZeroBubble, Refusals) {
  EXPECT_EQ(*find_schedule("zb_v")->refusal({.stages = 4, .microbatches = 8}),
            "zb_v has 2 model chunks per rank, not 1; set interleave (--chunks) to 2");
  EXPECT_EQ(*find_schedule("zb_h1")->refusal({.stages = 4, .microbatches = 8, .chunks = 2}),
            "zb_h1 has one model chunk per rank, not 2; interleaved_1f1b has several");
  EXPECT_EQ(
      *find_schedule("zb_auto")->refusal({.stages = 4, .microbatches = 8, .activation_limit = -1}),
      "zb_auto plans with times above zero and a limit of at least 1 activation");
}

}  // namespace
}  // namespace trainyard
