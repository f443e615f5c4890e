// The mean of a sample, with its 95 % confidence interval by Student's t distribution.
//
//    sample_mean({1, 2, 3, 4, 5});   // mean 3, deviation 1.581, half_width 1.963
#pragma once

#include <vector>

namespace trainyard {

struct SampleMean {
  double mean = 0.0;
  double deviation = 0.0;   // standard deviation of the sample (n - 1)
  double half_width = 0.0;  // of the interval of the mean; infinite for a single value

  [[nodiscard]] double low() const { return mean - half_width; }
  [[nodiscard]] double high() const { return mean + half_width; }
};

// REQUIRES: not empty.
[[nodiscard]] SampleMean sample_mean(const std::vector<double>& values);

}  // namespace trainyard
