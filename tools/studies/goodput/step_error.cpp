#include "tools/studies/goodput/step_error.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <cstdint>

namespace trainyard {

namespace {

constexpr double kOutside = 0.05;         // on each side of the range
constexpr double kLeastDeviation = 1e-9;  // below it the samples alone decide
constexpr int kBits = 40;                 // of the logarithm of a limit

// The value below which a share of the mixture lies.
double mixture_quantile(const std::vector<double>& samples, double deviation, double share) {
  const boost::math::normal error;
  const auto excess = [&](double log_x) {
    double below = 0.0;
    for (const double value : samples) below += cdf(error, (log_x - std::log(value)) / deviation);
    return below / static_cast<double>(samples.size()) - share;
  };
  const auto [least, most] = std::ranges::minmax(samples);
  const double z = quantile(error, share) * deviation;
  // Each component of the mixture has this quantile at its own log(value) + z. That of the mixture
  // lies between the least and the greatest of these; a deviation more on each side gives the
  // solver a change of sign, also where all samples are equal.
  const double from = std::log(least) + z - deviation;
  const double to = std::log(most) + z + deviation;
  std::uintmax_t steps = 200;
  const auto [low, high] = boost::math::tools::toms748_solve(
      excess, from, to, boost::math::tools::eps_tolerance<double>(kBits), steps);
  return std::exp((low + high) / 2.0);
}

}  // namespace

ValueRange range_with_step_error(const std::vector<double>& samples, double deviation) {
  const double width = std::max(deviation, kLeastDeviation);
  return {.low = mixture_quantile(samples, width, kOutside),
          .high = mixture_quantile(samples, width, 1.0 - kOutside)};
}

}  // namespace trainyard
