// What is kept of repeated timings: the median and how far the tenths at both ends lie.
//
//   spread_of({3.0, 1.0, 2.0});   // median 2.0, p10 1.2, p90 2.8
#pragma once

#include <vector>

namespace trainyard::bench {

struct Spread {
  double median = 0.0;
  double p10 = 0.0;
  double p90 = 0.0;
  bool operator==(const Spread&) const = default;
};

// Quantiles by linear interpolation between order statistics (Hyndman and Fan 1996, type 7).
// REQUIRES: at least one sample.
[[nodiscard]] Spread spread_of(std::vector<double> samples);

}  // namespace trainyard::bench
