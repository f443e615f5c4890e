// Fits the deviations behind intervals of predicted steps (scenarios/simulate/step_interval.hpp) to
// the errors of measured runs.
//
// Model: x = log(measured / predicted) of a run has the mean 0 and the variance
//
//    v = sum over kinds of (share of the kind * deviation of the kind)^2
//
// Likelihood is maximised by the multiplicative updates of variance components (Zhou, Hu, Qiao, Cho
// and Zhou 2019, MM algorithms for variance components models, equation 6), in which a variance is
// multiplied by sqrt((sum w s^2 x^2 / v^2) / (sum w s^2 / v)). Errors beyond 60 % count as 60 %,
// and the runs of a source weigh as much together as the square root of their number.
// All deviations are then scaled so that 90 % of the weight lies within 1.645 sqrt(v): normal tails
// are not assumed. Runs with their GPU left out do not take part in this: at the deviations so
// found, that of a GPU known by its data sheet is the one at which 90 % of them lie within.
//
//    const Uncertainty table = fit_uncertainty(runs);
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/simulate/step_interval.hpp"
#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

// The error of one prediction.
struct ErrorOfRun {
  const Outcome* outcome = nullptr;
  double error = 0.0;  // log(measured / predicted)
  bool judged = true;  // false: it only fits, because its source fitted constants of its prediction

  // Whether only the data sheet of its GPU was known.
  [[nodiscard]] bool by_data_sheet() const;
};

inline constexpr double kIntervalProbability = 0.9;
inline constexpr std::size_t kIntervalRunsLeast = 100;

// The number of standard deviations on both sides of a normal distribution's mean that hold a
// probability: 1.645 for 0.9.
[[nodiscard]] double deviations_of(double probability);

// The errors of training runs: with their source left out (they are judged), with their GPU left
// out (judged), and as shipped where the first one lacks the constants of its framework. REQUIRES:
// equal rows in the same order; `by_gpu` may be empty. The outcomes must outlive the result.
[[nodiscard]] std::vector<ErrorOfRun> errors_of_runs(const std::vector<Outcome>& shipped,
                                                     const std::vector<Outcome>& by_source,
                                                     const std::vector<Outcome>& by_gpu);

// The deviation of each kind. REQUIRES: at least one run on a GPU with tables of kernels.
[[nodiscard]] UncertainShares fit_deviations(const std::vector<ErrorOfRun>& runs);

// Throws InputError if there are fewer than kIntervalRunsLeast runs.
[[nodiscard]] Uncertainty fit_uncertainty(const std::vector<ErrorOfRun>& runs);

// The file models/uncertainty/steps.json. `source` states how it was made.
[[nodiscard]] nlohmann::ordered_json uncertainty_json(const Uncertainty& table,
                                                      const std::string& source);

}  // namespace trainyard
