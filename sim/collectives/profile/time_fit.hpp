// Fit of latency, bandwidth and protocol thresholds to measured times.
//
//    t(S) = a_k + S / B_k      for S in the k-th segment of sizes
//
// a is the latency and B the algorithm bandwidth of a segment. A library changes its protocol or
// algorithm with the size (NCCL: LL, LL128, Simple), and each has its own a and B, so the sizes are
// divided into contiguous segments. Within a segment, a and B minimise the sum of squared relative
// errors (times span five orders of magnitude), with a >= 0 and B > 0. The number of segments and
// their boundaries minimise Schwarz's criterion over all partitions into segments of three sizes or
// more:
//
//    BIC = n ln(RSS / n) + p ln n      p = 3 k - 1: two numbers per segment, and the thresholds
//
// (G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6, 1978.) RSS / n is at
// least (0.2 %)^2: times are printed with two decimals, so smaller errors are not significant.
// Example: 16 sizes whose times are exactly 10 us + S / 1 GB/s up to 64 KiB and 30 us + S / 10 GB/s
// above give two segments with these numbers (tests/sim/collectives/profile).
//
// A time is a stall if it is more than 1.5 times that of a larger size, and if it grew by a larger
// factor than the size did since the size before. A stall is a disturbance (a first call that sets
// up its connections, a busy network) and not a property of the library; the fit ignores it.
//
//    TimeFit fit = fit_times(points);
//    fit.segments[0].latency_s;
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

// One measured time. A list of points is sorted by bytes and contains each size once.
struct SizeTime {
  std::int64_t bytes = 0;
  double time_s = 0.0;
};

struct FitSegment {
  std::int64_t from_bytes = 0;  // smallest measured size of the segment
  std::int64_t to_bytes = 0;    // largest measured size
  double latency_s = 0.0;
  double seconds_per_byte = 0.0;  // 1 / B; 0 if the time does not depend on the size
  std::size_t sizes = 0;
  double error = 0.0;  // mean absolute relative error
  // The smallest size of the segment; 0 for the first one. It is the size at which the two lines
  // intersect if that lies between the last size below and the first size above; otherwise it is
  // the geometric mean of these two.
  double threshold_bytes = 0.0;

  [[nodiscard]] double time_s(double bytes) const { return latency_s + bytes * seconds_per_byte; }
};

struct TimeFit {
  std::vector<FitSegment> segments = {};
  std::size_t stalls = 0;    // number of times that the fit ignored
  double error = 0.0;        // mean absolute relative error over all times
  double error_worst = 0.0;  // largest absolute relative error

  // The segment of a size. Sizes below all measurements are in the first segment, sizes above in
  // the last.
  [[nodiscard]] const FitSegment& segment(double bytes) const;
};

// REQUIRES: at least one point and at most 512; times above zero.
[[nodiscard]] TimeFit fit_times(std::span<const SizeTime> points);

}  // namespace trainyard
