// The tick of a run: all dates are whole multiples of it, so that durations add up exactly.
//
// Sums of doubles depend on their order. Without ticks, a region that is planned as a whole
// (region_times.hpp) and the same operations played one by one would end a last bit apart. Where
// many flows share links, a last bit decides which flows overlap: with 40 ranks placed by hand on a
// torus a difference of 1e-17 s grew to 1e-4 s within one step. Multiples of a power of two below
// 2^53 add up exactly, so both ways give the same date to the last bit.
//
//    const Tick tick(0.05);          // some 0.05 s of work: a tick of 2^-55 s, 2.8e-17 s
//    tick.duration(1e-3);            // 1e-3 s to the nearest tick
#pragma once

#include <algorithm>
#include <cmath>

namespace trainyard {

struct EngineInput;

class Tick {
 public:
  // A tick of 0: durations are not rounded.
  Tick() = default;
  // Dates up to four times the horizon are exact. The error of a duration is at most 4e-16 of the
  // horizon. REQUIRES: horizon_s >= 0 and finite.
  explicit Tick(double horizon_s) {
    if (!(horizon_s > 0.0)) return;
    int exponent = 0;  // horizon_s < 2^exponent
    (void)std::frexp(horizon_s, &exponent);
    // A horizon is then at most 2^51 ticks, and four times the horizon at most 2^53 ticks.
    constexpr int kBitsOfADate = 51;
    tick_s_ = std::ldexp(1.0, exponent - kBitsOfADate);
    // A sum with 1.5 x 2^52 ticks lies between 2^52 and 2^53 ticks, where doubles are one tick
    // apart.
    constexpr double kShift = 1.5 * 4503599627370496.0;
    shift_s_ = kShift * tick_s_;
  }

  // Rounds to the nearest tick.
  [[nodiscard]] double date(double seconds) const { return (seconds + shift_s_) - shift_s_; }
  // Rounds to ticks. A duration above 0 takes at least one tick.
  [[nodiscard]] double duration(double seconds) const {
    if (!(seconds > 0.0)) return seconds;
    return std::max(date(seconds), tick_s_);
  }

 private:
  double tick_s_ = 0.0;
  double shift_s_ = 0.0;  // adding it and taking it away rounds to ticks
};

// The longest time that any program is busy if nothing waits.
[[nodiscard]] double horizon_of(const EngineInput& input);
// The tick of a run. Its horizon is the longest time that any program is busy if nothing waits. It
// is the same whether ranks are folded or not.
[[nodiscard]] Tick tick_of(const EngineInput& input);

}  // namespace trainyard
