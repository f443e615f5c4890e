// Robust least squares on logarithms with the Levenberg-Marquardt algorithm.
//
// Minimises the sum of 2 s^2 (sqrt(1 + (r/s)^2) - 1) over the residuals r = log(predicted /
// measured). The loss is quadratic near zero and linear beyond s, which limits the influence of
// outliers. Parameters are positive; steps change their logarithms.
//
//    const std::vector<double> best = fit_positive({8.0, 200.0}, residuals, {.scale = 0.05});
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::nccl::fit {

struct FitRule {
  double scale = 0.05;
  std::uint32_t rounds_most = 60;
};

using Residuals = std::function<std::vector<double>(const std::vector<double>&)>;

// REQUIRES: `start` is positive; `residuals` always returns the same number of values.
[[nodiscard]] std::vector<double> fit_positive(std::vector<double> start,
                                               const Residuals& residuals, const FitRule& rule);

}  // namespace trainyard::nccl::fit
