// Steps and their regular stalls, against a loop over every step.
#include "tools/studies/goodput/run/training_time.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace {

// The same by a loop: work and stalls until a number of seconds.
struct Walked {
  double position;
  std::vector<double> stalls_s;
};
Walked walked(double step_s, const std::vector<RegularStall>& stalls, double begin,
              double seconds) {
  Walked now{begin, std::vector<double>(stalls.size())};
  while (seconds > 0.0) {
    const double next = std::floor(now.position) + 1.0;
    const double work_s = std::min(seconds, (next - now.position) * step_s);
    now.position = work_s < seconds ? next : now.position + work_s / step_s;
    seconds -= work_s;
    for (std::size_t i = 0; i < stalls.size() && seconds > 0.0; ++i) {
      if (std::fmod(next, static_cast<double>(stalls[i].every_steps)) != 0.0) continue;
      const double stalled_s = std::min(seconds, stalls[i].stall_s);
      now.stalls_s[i] += stalled_s;
      seconds -= stalled_s;
    }
  }
  return now;
}

TEST(TrainingTime, IsThatOfALoopOverSteps) {
  const std::vector<std::vector<RegularStall>> all{
      {}, {{10, 3.0}}, {{1, 0.5}, {7, 40.0}}, {{3, 0.25}, {100, 250.0}, {30, 1.0}}};
  int cases = 0;
  for (const std::vector<RegularStall>& stalls : all)
    for (const double begin : {0.0, 30.0, 41.5, 1000.0})
      for (const double seconds : {0.0, 0.3, 9.99, 200.0, 5000.3}) {
        const TrainingTime time(2.0, stalls, begin);
        const TrainingTime::Split split = time.split(seconds);
        const Walked expected = walked(2.0, stalls, begin, seconds);
        EXPECT_NEAR(split.position, expected.position, 1e-9) << begin << " " << seconds;
        for (std::size_t i = 0; i < stalls.size(); ++i)
          EXPECT_NEAR(split.stalls_s[i], expected.stalls_s[i], 1e-9) << begin << " " << seconds;
        ++cases;
      }
  EXPECT_EQ(cases, 80);
}

// 200 s of work, then 10 s of the stall after step 100.
TEST(TrainingTime, HasTheStallsAfterTheirStep) {
  const std::vector<RegularStall> stalls{{.every_steps = 100, .stall_s = 10.0}};
  const TrainingTime time(2.0, stalls, 0.0);
  EXPECT_EQ(time.before_stalls(100), 200.0);
  EXPECT_EQ(time.after_stalls(100), 210.0);
  EXPECT_EQ(time.passed_by(209.9), 99.0);
  EXPECT_EQ(time.passed_by(210.0), 100.0);
  EXPECT_EQ(time.last_multiple(0, 250.0), 200.0);
  // Training that begins at step 100 has its stall behind it.
  EXPECT_EQ(TrainingTime(2.0, stalls, 100.0).after_stalls(200), 210.0);
}

}  // namespace
}  // namespace trainyard
