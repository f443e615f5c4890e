// Latency, bandwidth and protocol thresholds out of measured times.
//
//   t(S) = a_k + S / B_k      for S in the k-th range of sizes
//
// a: latency, B: algorithm bandwidth of a range. A library changes its protocol or algorithm with
// the size (NCCL: LL, LL128, Simple), and each has its own a and B, so the sizes are cut into
// contiguous ranges. Within a range a and B minimise the sum of squared relative errors (times span
// five orders of magnitude), with a >= 0 and B > 0. How many ranges there are, and where they meet,
// minimises Schwarz's criterion over all cuts into ranges of three sizes or more:
//
//   BIC = n ln(RSS / n) + p ln n      p = 3 k - 1: two numbers a range and the thresholds between
//
// (G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6, 1978.) RSS / n counts
// as (0.2 %)^2 where it is less: times are printed with two decimals, and nothing finer is told
// apart. Worked: 16 sizes whose times are exactly 10 us + S / 1 GB/s up to 64 KiB and 30 us +
// S / 10 GB/s above give two ranges with these numbers (tests/sim/collectives/profile).
//
// A time of more than 1.5 times that of a larger size, and grown by more than the size since the
// one before, is a stall (a first call that sets up its connections, a busy network) and not the
// library's: the fit leaves it out.
//
//   TimeFit fit = fit_times(points);
//   fit.segments[0].latency_s;
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

// Ordered by bytes, each size once.
struct SizeTime {
  std::int64_t bytes = 0;
  double time_s = 0.0;
};

struct FitSegment {
  std::int64_t from_bytes = 0;  // the first and the last measured size
  std::int64_t to_bytes = 0;
  double latency_s = 0.0;
  double seconds_per_byte = 0.0;  // 1 / B; 0 where the size makes no difference
  std::size_t sizes = 0;
  double error = 0.0;  // mean absolute relative error
  // From here on; 0 for the first. Where the two lines meet, else the geometric mean of the last
  // size below and the first above.
  double threshold_bytes = 0.0;

  [[nodiscard]] double time_s(double bytes) const { return latency_s + bytes * seconds_per_byte; }
};

struct TimeFit {
  std::vector<FitSegment> segments = {};
  std::size_t stalls = 0;    // times that were left out of the fit
  double error = 0.0;        // mean absolute relative error, of all times
  double error_worst = 0.0;  // the largest

  // The range of a size; the first below all that was measured, the last above.
  [[nodiscard]] const FitSegment& segment(double bytes) const;
};

// REQUIRES: at least one point; times above zero.
[[nodiscard]] TimeFit fit_times(std::span<const SizeTime> points);

}  // namespace trainyard
