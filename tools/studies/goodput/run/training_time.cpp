#include "tools/studies/goodput/run/training_time.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {

TrainingTime::TrainingTime(double step_s, std::span<const RegularStall> stalls, double begin)
    : step_s_(step_s), stalls_(stalls), begin_(begin) {}

// The number of times that a stall comes after the beginning and until `step`.
double TrainingTime::times(const RegularStall& stall, double step) const {
  const auto every = static_cast<double>(stall.every_steps);
  return std::floor(step / every) - std::floor(begin_ / every);
}

double TrainingTime::after_stalls(double step) const {
  double seconds = (step - begin_) * step_s_;
  for (const RegularStall& stall : stalls_) seconds += times(stall, step) * stall.stall_s;
  return seconds;
}

double TrainingTime::before_stalls(double step) const {
  double seconds = (step - begin_) * step_s_;
  // The stalls of `step` itself come after its work, so only those of the steps before it count.
  const double passed = std::max(step - 1.0, begin_);
  for (const RegularStall& stall : stalls_) seconds += times(stall, passed) * stall.stall_s;
  return seconds;
}

// With the mean time r of a step and its stalls, and the sum S of the stalls, after_stalls(s) is
// between (s - begin - 1) r - S and (s - begin) r + S. The step is searched for between those two.
double TrainingTime::passed_by(double seconds) const {
  double mean_s = step_s_;
  double all_s = 0.0;
  for (const RegularStall& stall : stalls_) {
    mean_s += stall.stall_s / static_cast<double>(stall.every_steps);
    all_s += stall.stall_s;
  }
  const double first = std::ceil(begin_);
  double low = std::max(first, std::floor(begin_ + (seconds - all_s) / mean_s) - 1.0);
  double high = std::max(first, std::floor(begin_ + (seconds + all_s) / mean_s) + 2.0);
  // Only the first whole step can still be under way here: any larger `low` is below the bound.
  if (after_stalls(low) > seconds) return begin_;
  while (high - low > 1.0) {  // after_stalls(low) <= seconds < after_stalls(high)
    const double middle = std::floor((low + high) / 2.0);
    (after_stalls(middle) <= seconds ? low : high) = middle;
  }
  return low;
}

TrainingTime::Split TrainingTime::split(double seconds) const {
  const double passed = passed_by(seconds);
  Split split{.position = passed, .passed = passed, .stalls_s = {}};
  for (const RegularStall& stall : stalls_)
    split.stalls_s.push_back(times(stall, passed) * stall.stall_s);
  // The rest lies within one step and the stalls after it, which pass in the order of the list.
  // Until the work is done, the position is a fraction of that step.
  double left = seconds - after_stalls(passed);
  const double next = std::floor(passed) + 1.0;
  const double work_s = std::min(left, (next - passed) * step_s_);
  split.position = work_s < left ? next : passed + work_s / step_s_;
  left -= work_s;
  for (std::size_t i = 0; i < stalls_.size() && left > 0.0; ++i) {
    if (last_multiple(i, next) != next) continue;
    const double stalled_s = std::min(left, stalls_[i].stall_s);
    split.stalls_s[i] += stalled_s;
    left -= stalled_s;
  }
  return split;
}

double TrainingTime::last_multiple(std::size_t stall, double position) const {
  const auto every = static_cast<double>(stalls_[stall].every_steps);
  return std::floor(position / every) * every;
}

}  // namespace trainyard
