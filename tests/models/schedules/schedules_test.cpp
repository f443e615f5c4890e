// The schedules of the registry against closed forms and explicit lists (oracles 31 to 34, 36
// to 40, 81). Unless a test states otherwise F = 1, B = 2 per rank and messages take no time.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "models/schedules/schedule.hpp"

namespace trainyard {
namespace {

const Schedule& named(std::string_view name) {
  const Schedule* schedule = find_schedule(name);
  EXPECT_NE(schedule, nullptr) << name;
  return *schedule;
}

StepDurations uniform(const PipelineShape& shape, double transfer_s = 0.0) {
  const auto stages = static_cast<std::size_t>(shape.stages);
  return {.forward_s = std::vector<double>(stages, 1.0),
          .backward_s = std::vector<double>(stages, 2.0),
          .weight_s = {},
          .transfer_s = transfer_s};
}

PlayedSchedule play(const std::string& name, const PipelineShape& given,
                    const StepDurations& durations) {
  const PipelineShape shape = placed(named(name), given);
  const ScheduleLists lists = all_steps(named(name), shape);
  EXPECT_EQ(check_schedule(lists, shape), std::nullopt) << name;
  return play_schedule(lists, shape, durations);
}

double makespan(const std::string& name, const PipelineShape& shape, double transfer_s = 0.0) {
  return play(name, shape, uniform(shape, transfer_s)).makespan_s;
}

std::string list_text(const std::vector<ScheduleStep>& steps, const PipelineShape& shape) {
  std::string text;
  for (const ScheduleStep& step : steps) {
    if (!text.empty()) text += ' ';
    text += to_text(step, shape);
  }
  return text;
}

// Every registered schedule with shapes that it accepts.
std::vector<PipelineShape> sample_shapes(const Schedule& schedule) {
  std::vector<PipelineShape> shapes;
  for (const std::int64_t stages : {1, 2, 3, 4, 8}) {
    for (const std::int64_t microbatches : {1, 2, 5, 8, 16}) {
      for (const std::int64_t chunks : {1, 2, 3}) {
        const PipelineShape shape =
            placed(schedule, {.stages = stages, .microbatches = microbatches, .chunks = chunks});
        if (!schedule.refusal(shape)) shapes.push_back(shape);
      }
    }
  }
  EXPECT_GE(shapes.size(), 5U) << schedule.name();  // dualpipe, which takes the fewest
  return shapes;
}

// Are the makespans of the basic schedules those of the textbook?
TEST(Schedules, TextbookMakespans) {
  EXPECT_DOUBLE_EQ(makespan("naive", {.stages = 4, .microbatches = 8}), 96.0);
  EXPECT_DOUBLE_EQ(makespan("gpipe", {.stages = 4, .microbatches = 8}), 33.0);
  EXPECT_DOUBLE_EQ(makespan("1f1b", {.stages = 4, .microbatches = 8}), 33.0);
  const PipelineShape long_run{.stages = 8, .microbatches = 32};
  const PlayedSchedule played = play("1f1b", long_run, uniform(long_run));
  EXPECT_DOUBLE_EQ(played.makespan_s, 117.0);
  EXPECT_NEAR(played.busy_s[3] / played.makespan_s, 0.820513, 5e-7);
}

struct InterleavedCase {
  PipelineShape shape;
  double transfer_s = 0.0;
  double makespan_s = 0.0;
  std::vector<std::int64_t> warm_ups;
  std::vector<std::int64_t> peaks;
};

// Are makespans, warm-ups and peaks of interleaved schedules correct?
TEST(Schedules, InterleavedMakespansAndPeaks) {
  const std::vector<InterleavedCase> cases = {
      {{4, 8, 2, 0}, 0.0, 28.5, {10, 8, 6, 4}, {11, 9, 7, 5}},
      {{4, 8, 4, 0}, 0.0, 26.25, {18, 16, 14, 12}, {19, 17, 15, 13}},
      {{8, 16, 2, 0}, 0.0, 58.5, {22, 20, 18, 16, 14, 12, 10, 8}, {23, 21, 19, 17, 15, 13, 11, 9}},
      {{2, 4, 2, 0}, 0.0, 13.5, {4, 2}, {5, 3}},
      {{4, 10, 2, 5}, 0.0, 34.5, {11, 9, 7, 5}, {12, 10, 8, 6}},
      {{4, 8, 2, 0}, 0.1, 29.9, {10, 8, 6, 4}, {11, 9, 7, 5}},
  };
  for (const InterleavedCase& expected : cases) {
    const PlayedSchedule played =
        play("interleaved_1f1b", expected.shape, uniform(expected.shape, expected.transfer_s));
    EXPECT_NEAR(played.makespan_s, expected.makespan_s, 1e-9 * expected.makespan_s);
    EXPECT_EQ(played.peak_activations, expected.peaks);
    for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
      const auto& steps = played.ranks[rank];
      const auto first_backward = std::find_if(steps.begin(), steps.end(), [](const auto& step) {
        return step.step.kind == StepKind::Backward;
      });
      // The steady phase begins with one more forward.
      EXPECT_EQ(first_backward - steps.begin() - 1, expected.warm_ups[rank]) << rank;
    }
  }
}

// Are the shares of the bubble those of the formula?
TEST(Schedules, BubbleShares) {
  const PipelineShape shape{.stages = 4, .microbatches = 8};
  const PlayedSchedule plain = play("1f1b", shape, uniform(shape));
  EXPECT_DOUBLE_EQ((plain.makespan_s - plain.busy_s[0]) / plain.busy_s[0], 3.0 / 8.0);
  EXPECT_DOUBLE_EQ(plain.busy_s[0] / plain.makespan_s, 8.0 / 11.0);
  const PipelineShape two{.stages = 4, .microbatches = 8, .chunks = 2};
  const PlayedSchedule interleaved = play("interleaved_1f1b", two, uniform(two));
  EXPECT_DOUBLE_EQ((interleaved.makespan_s - interleaved.busy_s[0]) / interleaved.busy_s[0],
                   3.0 / 16.0);
}

// Are the peaks of activations correct?
TEST(Schedules, PeakActivations) {
  const PipelineShape shape{.stages = 4, .microbatches = 8};
  using Peaks = std::vector<std::int64_t>;
  EXPECT_EQ(play("1f1b", shape, uniform(shape)).peak_activations, (Peaks{4, 3, 2, 1}));
  EXPECT_EQ(play("gpipe", shape, uniform(shape)).peak_activations, (Peaks{8, 8, 8, 8}));
  EXPECT_EQ(play("naive", shape, uniform(shape)).peak_activations, (Peaks{1, 1, 1, 1}));
  const PipelineShape few{.stages = 4, .microbatches = 2};
  EXPECT_EQ(play("1f1b", few, uniform(few)).peak_activations, (Peaks{2, 2, 2, 1}));
}

// Does the latency of messages add up as in the formula?
TEST(Schedules, LatencyOfMessages) {
  const PipelineShape shape{.stages = 4, .microbatches = 8};
  EXPECT_DOUBLE_EQ(makespan("1f1b", shape, 0.25), 37.0);
  EXPECT_DOUBLE_EQ(makespan("gpipe", shape, 0.25), 34.5);
  for (const std::int64_t p : {2, 3, 4, 6, 8}) {
    for (const std::int64_t groups : {1, 2, 3, 4}) {
      const PipelineShape any{.stages = p, .microbatches = groups * p};
      const double extra = static_cast<double>((4 * p - 6) + (groups - 1) * 2 * (p - 1)) * 0.05;
      EXPECT_NEAR(makespan("1f1b", any, 0.05), makespan("1f1b", any) + extra, 1e-9) << p;
    }
  }
}

// Are unequal stages timed correctly?
TEST(Schedules, UnequalStages) {
  struct Case {
    std::vector<double> forward_s;
    double plain = 0.0;
  };
  const PipelineShape shape{.stages = 4, .microbatches = 8};
  for (const Case& unequal :
       {Case{{1, 1, 1, 2}, 57.0}, Case{{2, 1, 1, 1}, 51.0}, Case{{1, 2, 1, 1}, 53.0}}) {
    StepDurations durations{.forward_s = unequal.forward_s, .backward_s = {}, .weight_s = {}};
    for (const double forward : unequal.forward_s) durations.backward_s.push_back(2.0 * forward);
    EXPECT_DOUBLE_EQ(play("1f1b", shape, durations).makespan_s, unequal.plain);
    EXPECT_DOUBLE_EQ(play("gpipe", shape, durations).makespan_s, 57.0);
  }
}

// Are one stage and one microbatch timed correctly?
TEST(Schedules, OneStageAndOneMicrobatch) {
  EXPECT_GE(schedules().size(), 12U);
  std::size_t played = 0;
  for (const Schedule* schedule : schedules()) {
    const PipelineShape alone{.stages = 1, .microbatches = 6, .chunks = schedule->usual_chunks()};
    if (schedule->name() == "dualpipe") continue;  // needs an even number of ranks
    EXPECT_NEAR(makespan(std::string(schedule->name()), alone, 0.5), 18.0, 1e-12);
    ++played;
  }
  EXPECT_EQ(played, schedules().size() - 1);
  for (const std::string name : {"naive", "gpipe", "1f1b"}) {
    EXPECT_DOUBLE_EQ(makespan(name, {.stages = 4, .microbatches = 1}, 0.25), 4 * 3 + 6 * 0.25);
  }
}

bool splits(const ScheduleLists& lists) {
  return std::any_of(lists.begin(), lists.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const ScheduleStep& step) {
      return step.kind == StepKind::BackwardInput;
    });
  });
}

// Does every schedule contain every step once, within the bounds of the makespan?
TEST(Schedules, EveryStepOnceAndWithinBounds) {
  for (const Schedule* schedule : schedules()) {
    for (const PipelineShape& shape : sample_shapes(*schedule)) {
      const ScheduleLists lists = all_steps(*schedule, shape);
      ASSERT_EQ(check_schedule(lists, shape), std::nullopt) << schedule->name();
      const PlayedSchedule played = play_schedule(lists, shape, uniform(shape, 0.125));
      const auto p = static_cast<double>(shape.stages);
      const auto m = static_cast<double>(shape.microbatches);
      // the part for which the previous stage waits
      const double backward = splits(lists) ? 1.0 : 2.0;
      EXPECT_GE(played.makespan_s, (1.0 + backward) * p + 2.0 * (p - 1.0) * 0.125 - 1e-9)
          << schedule->name();
      EXPECT_GE(played.makespan_s, 3.0 * m - 1e-9) << schedule->name();
      for (const auto& rank : played.ranks) {
        for (std::size_t i = 1; i < rank.size(); ++i) {
          const double free_at = rank[i - 1].step.overlapped ? rank[i].start_s : rank[i - 1].end_s;
          EXPECT_GE(rank[i].start_s, free_at);
        }
      }
      for (const double busy : played.busy_s) EXPECT_NEAR(busy, 3.0 * m, 1e-9);
    }
  }
}

// A lower bound of the makespan: some stage does m(f+b) of work after the stages before it have
// passed on the first microbatch, and these still have to run the last backward. The bound is the
// maximum over stages s of m(f_s + b_s) plus the sum of f_j + b_j over the stages j before s.
double lower_bound(const PipelineShape& shape, const StepDurations& durations) {
  double before = 0.0;
  double bound = 0.0;
  for (std::size_t rank = 0; rank < durations.forward_s.size(); ++rank) {
    const double work = durations.forward_s[rank] + durations.backward_s[rank];
    bound = std::max(bound, static_cast<double>(shape.microbatches) * work + before);
    before += work;
  }
  return bound;
}

// Do unequal stages stay above their lower bound?
TEST(Schedules, UnequalStagesStayAboveTheirBound) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 50; ++trial) {
    const PipelineShape shape{.stages = 2 + static_cast<std::int64_t>(random() % 7),
                              .microbatches = 1 + static_cast<std::int64_t>(random() % 12)};
    StepDurations durations;
    for (std::int64_t rank = 0; rank < shape.stages; ++rank) {
      durations.forward_s.push_back(1.0 + static_cast<double>(random() % 100) / 50.0);
      durations.backward_s.push_back(1.0 + static_cast<double>(random() % 100) / 25.0);
    }
    const double bound = lower_bound(shape, durations);
    for (const std::string name : {"naive", "gpipe", "1f1b"}) {
      EXPECT_GE(play(name, shape, durations).makespan_s, bound - 1e-9) << name << " " << trial;
    }
  }
}

// Do busy time and bubble fill the makespan?
TEST(Schedules, BusyAndBubbleFillTheMakespan) {
  for (const Schedule* schedule : schedules()) {
    for (const PipelineShape& shape : sample_shapes(*schedule)) {
      const PlayedSchedule played =
          play_schedule(all_steps(*schedule, shape), shape, uniform(shape, 0.25));
      ASSERT_EQ(std::ssize(played.ranks), shape.stages) << schedule->name();
      for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
        double bubble = 0.0;
        double free_at = 0.0;
        for (const PlayedStep& step : played.ranks[rank]) {
          if (step.end_s == free_at) continue;  // the second step of an overlapped pair
          EXPECT_GE(step.start_s, free_at) << schedule->name();
          bubble += step.start_s - free_at;
          free_at = step.end_s;
        }
        bubble += played.makespan_s - free_at;
        EXPECT_NEAR(played.busy_s[rank] + bubble, played.makespan_s, 1e-9 * played.makespan_s)
            << schedule->name();
      }
    }
  }
}

// Do twice as many microbatches add exactly their work?
TEST(Schedules, TwiceTheMicrobatchesAddTheirWork) {
  for (const std::int64_t p : {1, 2, 4, 7}) {
    for (const std::int64_t m : {1, 4, 9}) {
      const double once = makespan("1f1b", {.stages = p, .microbatches = m});
      const double twice = makespan("1f1b", {.stages = p, .microbatches = 2 * m});
      EXPECT_DOUBLE_EQ(twice, once + 3.0 * static_cast<double>(m)) << p << " " << m;
    }
  }
}

// Is the interleaved schedule that of the fixture?
TEST(Schedules, InterleavedFixture) {
  const PipelineShape shape{.stages = 2, .microbatches = 4, .chunks = 2, .group_size = 2};
  const Schedule& interleaved = named("interleaved_1f1b");
  EXPECT_EQ(list_text(interleaved.steps(shape, 0), shape),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(list_text(interleaved.steps(shape, 1), shape),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

// Is the last group of an interleaved schedule partial if the microbatches do not divide?
TEST(Schedules, InterleavedTableWithAPartialLastGroup) {
  const PipelineShape shape{.stages = 2, .microbatches = 5, .chunks = 2, .group_size = 3};
  std::string forwards;
  for (const ScheduleStep& step : named("interleaved_1f1b").steps(shape, 1)) {
    if (step.kind == StepKind::Forward) forwards.append(to_text(step, shape)).append(" ");
  }
  EXPECT_EQ(forwards, "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 F3.0 F4.0 F3.1 F4.1 ");
}

// Are the lists of the basic schedules correct?
TEST(Schedules, PlainLists) {
  const PipelineShape shape{.stages = 4, .microbatches = 5};
  EXPECT_EQ(list_text(named("1f1b").steps(shape, 1), shape), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(list_text(named("1f1b").steps(shape, 3), shape), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_EQ(list_text(named("gpipe").steps(shape, 2), shape), "F0 F1 F2 F3 F4 B4 B3 B2 B1 B0");
  EXPECT_EQ(list_text(named("naive").steps(shape, 0), shape), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_TRUE(named("naive").one_microbatch_at_a_time());
  EXPECT_FALSE(named("1f1b").one_microbatch_at_a_time());
}

// Are overlapped pairs legal? Each backward is paired with the forward before it, one forward
// further ahead. On every shape this must be legal, lose no step, and hold at most one more
// microbatch; on one stage only the two ends stay unpaired.
TEST(Schedules, OverlappedPairs) {
  for (const char* name : {"1f1b", "interleaved_1f1b"}) {
    for (const PipelineShape& shape : sample_shapes(named(name))) {
      const ScheduleLists plain = all_steps(named(name), shape);
      const ScheduleLists pairs = with_overlapped_pairs(plain);
      EXPECT_EQ(check_schedule(pairs, shape), std::nullopt)
          << name << " " << shape.stages << " " << shape.microbatches << " " << shape.chunks;
      const PlayedSchedule before = play_schedule(plain, shape, uniform(shape));
      const PlayedSchedule after = play_schedule(pairs, shape, uniform(shape));
      for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
        EXPECT_EQ(pairs[rank].size(), plain[rank].size());
        EXPECT_LE(after.peak_activations[rank], before.peak_activations[rank] + 1);
      }
    }
  }
  const PipelineShape one{.stages = 1, .microbatches = 4};
  const ScheduleLists lists = with_overlapped_pairs(all_steps(named("1f1b"), one));
  EXPECT_EQ(list_text(lists[0], one), "F0 F1 B0 F2 B1 F3 B2 B3");
  for (const ScheduleStep& step : lists[0])
    EXPECT_EQ(step.overlapped, step.kind == StepKind::Forward && step.microbatch > 0);
}

// Are overlapped pairs legal exactly for the schedules that allow them? A scenario may request them
// only there.
TEST(Schedules, ThoseThatMayOverlapPairsAreLegalWithThem) {
  std::vector<std::string> found;
  for (const Schedule* schedule : schedules()) {
    for (const std::int64_t stages : {1, 4}) {
      if (!schedule->may_overlap_pairs(stages)) continue;
      const PipelineShape shape = placed(
          *schedule, {.stages = stages, .microbatches = 8, .chunks = schedule->usual_chunks()});
      ASSERT_EQ(schedule->refusal(shape), std::nullopt);
      const ScheduleLists lists = with_overlapped_pairs(all_steps(*schedule, shape));
      EXPECT_EQ(check_schedule(lists, shape), std::nullopt) << schedule->name();
      found.push_back(std::string(schedule->name()) + " on " + std::to_string(stages));
    }
  }
  EXPECT_EQ(found, (std::vector<std::string>{"1f1b on 1", "interleaved_1f1b on 1",
                                             "interleaved_1f1b on 4"}));
}

// Does 1F1B accept any number of chunks?
TEST(Schedules, OneForwardOneBackwardTakesAnyNumberOfChunks) {
  for (const std::int64_t chunks : {1, 2, 3}) {
    const Schedule& schedule = one_f_one_b(chunks);
    EXPECT_TRUE(schedule.is_one_f_one_b()) << chunks;
    EXPECT_EQ(schedule.refusal({.stages = 4, .microbatches = 8, .chunks = chunks}), std::nullopt);
  }
  std::vector<std::string_view> one_f_one_b, one_at_a_time, unsearched;
  for (const Schedule* schedule : schedules()) {
    if (schedule->is_one_f_one_b()) one_f_one_b.push_back(schedule->name());
    if (schedule->one_microbatch_at_a_time()) one_at_a_time.push_back(schedule->name());
    if (!schedule->is_searched()) unsearched.push_back(schedule->name());
  }
  EXPECT_EQ(one_f_one_b, (std::vector<std::string_view>{"1f1b", "interleaved_1f1b"}));
  EXPECT_EQ(one_at_a_time, (std::vector<std::string_view>{"naive"}));
  EXPECT_EQ(unsearched, (std::vector<std::string_view>{"naive", "gpipe", "zb_auto"}));
}

// Are unsupported shapes refused?
TEST(Schedules, Refusals) {
  const Schedule& interleaved = named("interleaved_1f1b");
  EXPECT_EQ(*interleaved.refusal({.stages = 4, .microbatches = 8}),
            "interleaved_1f1b needs at least 2 chunks per rank, not 1; with one chunk the schedule "
            "is 1f1b");
  EXPECT_EQ(*interleaved.refusal({.stages = 4, .microbatches = 6, .chunks = 2}),
            "interleaved_1f1b leaves 2 of 6 microbatches in its last group of 4, fewer than the 4 "
            "stages; choose microbatches that are a multiple of 4");
  EXPECT_EQ(*interleaved.refusal({.stages = 4, .microbatches = 2, .chunks = 2}),
            "interleaved_1f1b needs a microbatch group of at least the 4 stages and at most the 2 "
            "microbatches, not 4");
  EXPECT_EQ(*named("1f1b").refusal({.stages = 4, .microbatches = 8, .chunks = 2}),
            "1f1b has one model chunk per rank, not 2; interleaved_1f1b has several");
  EXPECT_EQ(*named("gpipe").refusal({.stages = 0, .microbatches = 8}),
            "a pipeline has at least 1 stage, 1 microbatch and 1 chunk, not 0, 8 and 1");
  EXPECT_EQ(find_schedule("2f2b"), nullptr);
}

}  // namespace
}  // namespace trainyard
