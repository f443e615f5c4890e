// Robust least squares on logarithms, by Levenberg and Marquardt.
//
// Minimises the sum of 2 s^2 (sqrt(1 + (r/s)^2) - 1) over residuals r = log(predicted / measured):
// squares near zero, absolute values beyond s, so that a wrong row does not pull. Parameters are
// positive and stepped in their logarithms.
//
//   const std::vector<double> best = fit_positive({8.0, 200.0}, residuals, {.scale = 0.05});
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

// REQUIRES: start is positive; as many residuals each time.
[[nodiscard]] std::vector<double> fit_positive(std::vector<double> start,
                                               const Residuals& residuals, const FitRule& rule);

}  // namespace trainyard::nccl::fit
