#include "sim/base/sample_mean.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

SampleMean sample_mean(const std::vector<double>& values) {
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
