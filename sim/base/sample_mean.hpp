// The mean of a sample, with its 95 % confidence interval by Student's t distribution.
//
//    sample_mean({1, 2, 3, 4, 5});   // mean 3, deviation 1.581, half_width 1.963
#pragma once

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

struct SampleMean {
  double mean = 0.0;
  double deviation = 0.0;   // standard deviation of the sample (n - 1)
  double half_width = 0.0;  // of the interval of the mean; infinite for a single value

  [[nodiscard]] double low() const { return mean - half_width; }
  [[nodiscard]] double high() const { return mean + half_width; }
};

// REQUIRES: not empty.
[[nodiscard]] inline SampleMean sample_mean(const std::vector<double>& values) {
  TY_CHECK(!values.empty(), values.size());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1)
    return {.mean = mean, .half_width = std::numeric_limits<double>::infinity()};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  constexpr double kUpper = 0.975;
  const double t = quantile(boost::math::students_t(count - 1.0), kUpper);
  return {.mean = mean,
          .deviation = std::sqrt(squares / (count - 1.0)),
          .half_width = t * std::sqrt(squares / (count - 1.0) / count)};
}

}  // namespace trainyard
