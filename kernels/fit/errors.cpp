#include "kernels/fit/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/base/check.hpp"

namespace trainyard::fit {

Errors errors_of(std::vector<double> ratios) {
  TY_CHECK(!ratios.empty());
  const auto at = [](std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  std::sort(ratios.begin(), ratios.end());
  Errors errors{.count = ratios.size(), .bias = at(ratios, 0.5) - 1.0};
  for (double& ratio : ratios) ratio = std::abs(ratio - 1.0);
  std::sort(ratios.begin(), ratios.end());
  errors.median = at(ratios, 0.5);
  errors.p95 = at(ratios, 0.95);
  return errors;
}

std::string to_text(const Errors& errors) {
  return fmt::format("median {:.2f} %, p95 {:.2f} %, bias {:+.2f} % ({} shapes)",
                     errors.median * 100, errors.p95 * 100, errors.bias * 100, errors.count);
}

std::vector<bool> draw(std::size_t count, const HoldOut& hold_out) {
  std::mt19937_64 generator(hold_out.seed);
  std::vector<bool> left_out(count);
  // The generator's own words: distributions differ between standard libraries.
  constexpr double words = 18446744073709551616.0;
  for (std::size_t i = 0; i < count; ++i)
    left_out[i] = static_cast<double>(generator()) / words < hold_out.share;
  return left_out;
}

}  // namespace trainyard::fit
