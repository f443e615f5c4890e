// The error of the predicted step, carried over to a whole run.
#include "tools/studies/goodput/step_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tools/studies/goodput/goodput.hpp"

namespace trainyard {
namespace {

// The probability of less than z deviations of a standard normal.
double normal_below(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2.0; }

// One run: its time times exp(-+1.645 deviations).
TEST(StepError, OfOneRunIsThatOfTheStep) {
  int cases = 0;
  for (const double deviation : {0.01, 0.1, 0.4}) {
    const ValueRange range = range_with_step_error({30.0, 30.0}, deviation);
    EXPECT_NEAR(range.low, 30.0 * std::exp(-1.6448536269514722 * deviation), 1e-8);
    EXPECT_NEAR(range.high, 30.0 * std::exp(1.6448536269514722 * deviation), 1e-8);
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

// Are 5 % of the mixture below the range and 5 % above it, also where the runs differ by more than
// the step is uncertain? Without an error the limits are runs themselves.
TEST(StepError, LeavesFivePercentOnEachSide) {
  std::vector<double> runs;
  for (int i = 1; i <= 40; ++i) runs.push_back(100.0 + i * i);
  for (const double deviation : {0.02, 0.2}) {
    const ValueRange range = range_with_step_error(runs, deviation);
    double below = 0.0;
    double above = 0.0;
    for (const double run : runs) {
      below += normal_below(std::log(range.low / run) / deviation) / 40.0;
      above += normal_below(std::log(run / range.high) / deviation) / 40.0;
    }
    EXPECT_NEAR(below, 0.05, 1e-8) << deviation;
    EXPECT_NEAR(above, 0.05, 1e-8) << deviation;
  }
  const ValueRange range = range_with_step_error(runs, 0.0);
  EXPECT_NEAR(range.low, runs[1], 1.1 * (runs[2] - runs[1]));
  EXPECT_NEAR(range.high, runs[38], 1.1 * (runs[39] - runs[38]));
}

// Does a run of so many steps take e times as long with steps that do? Failures come with the wall
// time, so their number grows alike; only the work redone between checkpoints grows faster.
TEST(StepError, LengthensAWholeRun) {
  const auto wall_of = [](double step_s) {
    Job job;
    job.causes = {{.name = "any", .rate = 1.0 / 7200.0}};
    job.step_s = step_s;
    job.start_s = 300.0;
    job.levels.front().interval_steps = 300;
    job.levels.front().stall_s = 5.0;
    return goodput(job, {.length = {.steps = 100'000.0}, .seed = 3, .runs = 400}).wall_s.mean;
  };
  EXPECT_NEAR(wall_of(1.1) / wall_of(1.0), 1.1, 0.005);
  EXPECT_NEAR(wall_of(0.9) / wall_of(1.0), 0.9, 0.005);
}

}  // namespace
}  // namespace trainyard
