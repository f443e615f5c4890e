#include "kernels/bench/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::bench {

namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  TY_CHECK(!samples.empty(), samples.size());
  std::ranges::sort(samples);
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

}  // namespace trainyard::bench
