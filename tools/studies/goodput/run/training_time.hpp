// The time of training without interruptions: steps of equal length, and the stalls that come after
// every so many of them (checkpoints of each level, evaluations, health checks).
//
// A position is a number of steps since the start of the run. The stalls after step s belong to s:
// they come after the work of s and before the work of s + 1.
//
//    // steps of 2 s, a checkpoint of 10 s after each 100
//    const std::vector<RegularStall> stalls{{.every_steps = 100, .stall_s = 10.0}};
//    const TrainingTime time(2.0, stalls, 0.0);
//    time.before_stalls(100);   // 200 s
//    time.after_stalls(100);    // 210 s
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

struct RegularStall {
  std::int64_t every_steps = 1;
  double stall_s = 0.0;
};

class TrainingTime {
 public:
  // Training begins at a position, whose stalls have passed. REQUIRES: step_s > 0; the stalls live
  // as long as this.
  TrainingTime(double step_s, std::span<const RegularStall> stalls, double begin);

  // Seconds from the beginning until the work of whole step `step` is done, and until the stalls
  // after it have passed. REQUIRES: step >= the beginning.
  [[nodiscard]] double before_stalls(double step) const;
  [[nodiscard]] double after_stalls(double step) const;

  // The last whole step whose stalls have passed after so many seconds, or the beginning.
  [[nodiscard]] double passed_by(double seconds) const;

  // The position after so many seconds, and the seconds of each stall until then.
  struct Split {
    double position = 0.0;
    double passed = 0.0;  // passed_by() of the same seconds
    std::vector<double> stalls_s;
  };
  [[nodiscard]] Split split(double seconds) const;

  // The last multiple of the interval of a stall that is not after a position.
  [[nodiscard]] double last_multiple(std::size_t stall, double position) const;

 private:
  [[nodiscard]] double times(const RegularStall& stall, double step) const;

  double step_s_;
  std::span<const RegularStall> stalls_;
  double begin_;
};

}  // namespace trainyard
