// When a run will be finished: sampled runs of its job from the end of the log on, each with
// failure rates, recovery and steps drawn from what the log leaves uncertain.
//
//    const Forecast forecast = forecast_run(fit, job, {.steps = 200'000});
//    forecast.p50_s;   // seconds from the end of the log
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/run_log/log_fit.hpp"

namespace trainyard {

struct ForecastOptions {
  double steps = 0.0;  // that remain
  std::size_t runs = 400;
  std::uint64_t seed = 0;
  std::function<void(double)> progress = {};  // receives the completed fraction
};

// The median of the time that remains, if one input has its own P10 or P90 and all others their
// means. The runs see the same random numbers.
struct ForecastInput {
  std::string name;
  double at_p10_s = 0.0;
  double at_p90_s = 0.0;

  [[nodiscard]] double swing_s() const { return std::abs(at_p90_s - at_p10_s); }
};

struct Forecast {
  double steps = 0.0;
  double p10_s = 0.0;
  double p50_s = 0.0;
  double p90_s = 0.0;
  std::vector<ForecastInput> inputs = {};  // the largest swing first
};

// Uncertain are: the failure rates (their posterior; the causes share the rate of all failures by a
// Dirichlet distribution), the recovery (Bayesian bootstrap of the logged recoveries, Rubin 1981,
// and the mean of as many as are to come), the step (Bayesian bootstrap of the times between
// interruptions), and which failures come.
[[nodiscard]] Forecast forecast_run(const LogFit& fit, const Job& job,
                                    const ForecastOptions& options);

}  // namespace trainyard
