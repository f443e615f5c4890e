#include "models/reliability/counts.hpp"

#include <boost/math/distributions/gamma.hpp>

namespace trainyard::reliability {

MeanInterval poisson_interval(std::int64_t count, double confidence) {
  const double tail = (1.0 - confidence) / 2.0;
  const auto quantile_of = [](double shape, double share) {
    return boost::math::quantile(boost::math::gamma_distribution(shape), share);
  };
  const auto events = static_cast<double>(count);
  return {.lower = count == 0 ? 0.0 : quantile_of(events, tail),
          .upper = quantile_of(events + 1.0, 1.0 - tail)};
}

}  // namespace trainyard::reliability
