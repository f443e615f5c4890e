// The wall time of a log is split into phases whose sum is the wall time, as worked out by hand and
// for any order of events.
#include "tools/studies/run_log/phases.hpp"

#include <gtest/gtest.h>

#include "sim/base/random.hpp"
#include "tests/tools/studies/run_log/log_files.hpp"

namespace trainyard {
namespace {

PhaseSplit split_of(const std::string& rows) {
  return split_phases(test::log_of("time,event,step,cause,node,duration_s\n" + rows));
}

// Steps of 10 s. A checkpoint of 20 s at step 10, a failure at step 15: 5 steps are lost. 30 s of
// detection, 100 s of which nothing is known, 70 s of loading. Then 10 steps more.
TEST(PhaseSplit, IsThatOfAnExampleByHand) {
  const PhaseSplit split = split_of(
      "0,step,0,,,\n100,checkpoint,10,,,20\n170,step,15,,,\n170,failure,,GPU,,\n"
      "170,detection,,,,30\n300,load,,,,70\n370,step,10,,,\n470,step,20,,,\n");
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Productive), 200);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Redone), 50);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Checkpoint), 20);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Detect), 30);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Load), 70);
  EXPECT_DOUBLE_EQ(split.not_explained_s, 100);
  EXPECT_DOUBLE_EQ(split.sum_s(), 470);
  EXPECT_DOUBLE_EQ(split.steps_kept, 20);
  EXPECT_DOUBLE_EQ(split.last_step, 20);
  EXPECT_DOUBLE_EQ(split.step_times->median_s, 10);
  ASSERT_EQ(split.segments.size(), 2U);
  EXPECT_DOUBLE_EQ(*split.segments[1].up_s, 370);
  EXPECT_DOUBLE_EQ(split.segments[1].recovery_not_explained_s, 100);
}

// Counts come every 10 steps of 1 s. The failure at 25 s lies 5 s after a count; the restart holds
// step 22, so 2 s of these were kept and 3 s are redone.
TEST(PhaseSplit, KeepsStepsAfterTheLastCount) {
  const PhaseSplit split = split_of(
      "0,step,0,,,\n10,step,10,,,\n20,step,20,,,\n25,failure,,,,\n40,step,22,,,\n"
      "50,step,32,,,\n");
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Productive), 32);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Redone), 3);
  EXPECT_DOUBLE_EQ(split.not_explained_s, 15);
  EXPECT_DOUBLE_EQ(split.steps_kept, 32);
}

// A hang of 1000 s after the last count: the next count would have come after 10 s.
TEST(PhaseSplit, DoesNotCountAHangAsWork) {
  const PhaseSplit split =
      split_of("0,step,0,,,\n10,step,10,,,\n1010,failure,,,,\n1020,step,10,,,\n1030,step,20,,,\n");
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Redone), 10);
  EXPECT_DOUBLE_EQ(split.not_explained_s, 1000);
}

// A job of Slurm whose next allocation starts in the second in which a node fails is up at once.
TEST(PhaseSplit, IsUpInTheSecondOfTheFailure) {
  const PhaseSplit split =
      split_phases(test::log_of("JobID|Start|End|State\n"
                                "1|2026-03-01T00:00:00|2026-03-01T10:00:00|NODE_FAIL\n"
                                "1|2026-03-01T10:00:00|2026-03-01T16:00:00|COMPLETED\n"));
  ASSERT_EQ(split.segments.size(), 2U);
  ASSERT_TRUE(split.segments[1].up_s);
  EXPECT_DOUBLE_EQ(*split.segments[1].up_s, split.segments[1].begin_s);
  EXPECT_DOUBLE_EQ(split.segments[1].training_s, 6 * 3600);
}

// A checkpoint at the step of a count is no new count: the work after it is lost all the same. In a
// segment with one count, counts are as far apart as they were before.
TEST(PhaseSplit, LosesWorkAfterACheckpointOfTheSameStep) {
  for (const std::string checkpoint : {"", "100,checkpoint,10,,,0\n"}) {
    const PhaseSplit split = split_of("0,step,0,,,\n100,step,10,,,\n" + checkpoint +
                                      "150,failure,,GPU,,\n160,step,10,,,\n200,failure,,GPU,,\n"
                                      "210,step,10,,,\n310,step,20,,,\n");
    EXPECT_DOUBLE_EQ(split.phase(RunPhase::Redone), 50 + 40);
    EXPECT_DOUBLE_EQ(split.not_explained_s, 10 + 10);
  }
}

// Two restarts in a row from the same checkpoint: the work of both attempts is lost.
TEST(PhaseSplit, CountsWorkThatIsLostTwice) {
  const PhaseSplit split = split_of(
      "0,step,0,,,\n10,step,10,,,\n10,failure,,,,\n20,step,5,,,\n30,step,15,,,\n30,failure,,,,\n"
      "40,step,5,,,\n50,step,15,,,\n");
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Redone), 5 + 10);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Productive), 5 + 10);
  EXPECT_DOUBLE_EQ(split.steps_kept, 15);
}

// Where spans overlap, the time belongs to the one that began last: a restore of 20 s within a
// start of 100 s.
TEST(PhaseSplit, CountsNestedSpansOnce) {
  const PhaseSplit split =
      split_of("0,start,,,,100\n30,load,,,,20\n100,step,0,,,\n110,step,1,,,\n");
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Start), 80);
  EXPECT_DOUBLE_EQ(split.phase(RunPhase::Load), 20);
  EXPECT_DOUBLE_EQ(split.sum_s(), 110);
}

// Events in any order and over each other: no second is lost or counted twice.
TEST(PhaseSplit, AddsUpToTheWallTimeForAnyLog) {
  const std::vector<const char*> words{"step",      "failure", "planned", "checkpoint",
                                       "detection", "load",    "pause",   "other"};
  int split_logs = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random = Random(seed).split("log");
    std::string rows;
    double steps = 0.0;
    for (int i = 0; i < 60; ++i) {
      const auto pick = static_cast<std::size_t>(random.uniform() * 8.0);
      steps = std::max(0.0, steps + random.uniform() * 20.0 - 4.0);
      rows += fmt::format("{:.3f},{},{:.0f},,,{:.2f}\n", random.uniform() * 1000.0, words[pick],
                          steps, random.uniform() * 80.0);
    }
    const RunLog log = test::log_of("time,event,step,cause,node,duration_s\n" + rows);
    const PhaseSplit split = split_phases(log);
    EXPECT_NEAR(split.sum_s() / log.wall_s(), 1.0, 1e-12) << "seed " << seed;
    for (const double time_s : split.phases_s) EXPECT_GE(time_s, 0.0) << "seed " << seed;
    EXPECT_GE(split.not_explained_s, 0.0);
    ++split_logs;
  }
  EXPECT_EQ(split_logs, 200);
}

}  // namespace
}  // namespace trainyard
