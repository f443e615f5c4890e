// The times of one collective on groups of one shape, measured, and what they say of any size.
//
//   latency(S) = r(S) a      transfer(S) = r(S) S / B      r = measured / fitted
//
// a and B are those of the range the size is in (time_fit.hpp). r is 1 but for noise and rounding;
// between two measured sizes it is interpolated in log S, beyond the smallest and the largest it
// stays what it was there. So a measured size takes exactly its measured time. Worked: a measured
// 21 us where the fit says 20 (a = 8 us, S / B = 12 us): r = 1.05, 8.4 us of latency, 12.6 us of
// transfer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/collectives/profile/measured_run.hpp"
#include "sim/collectives/profile/time_fit.hpp"

namespace trainyard {

struct CurveTime {
  double latency_s = 0.0;
  double transfer_s = 0.0;
  bool measured_range = true;  // within the sizes that were measured
};

struct MeasuredCurve {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu = {};
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string dtype = {};
  bool in_place = false;
  std::vector<SizeTime> points = {};  // by size; the median where there are several
  TimeFit fit = {};

  // REQUIRES: bytes above zero.
  [[nodiscard]] CurveTime at(double bytes) const;
};

// One curve for each operation, shape, GPU, type and place. Sorted by these.
[[nodiscard]] std::vector<MeasuredCurve> curves_of(std::span<const MeasuredRun> runs);

}  // namespace trainyard
