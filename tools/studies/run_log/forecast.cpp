#include "tools/studies/run_log/forecast.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/random.hpp"
#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"
#include "tools/studies/run_log/log_job.hpp"

namespace trainyard {

namespace {

// Factors on the means of the fit. Without rates by cause, the factor of all rates holds for each
// cause.
struct DrawnInputs {
  std::vector<double> rates;  // by cause of the job
  double all_rates = 1.0;
  double recovery = 1.0;
  double step = 1.0;
};

// Weights of a Bayesian bootstrap: exponential numbers over their sum have the Dirichlet
// distribution of (1, ..., 1).
double exponential(Random& random) { return -std::log1p(-random.uniform()); }

double drawn_rate(const GammaRate& rate, Random& random) {
  return random.gamma(rate.shape) / rate.exposure;
}

// All failures have one drawn rate; its causes share it in proportion to Gamma numbers of their
// shapes, which is a Dirichlet distribution.
void draw_rates(const LogFit& fit, const Job& job, Random random, DrawnInputs& drawn) {
  drawn.all_rates = drawn_rate(fit.failure_rate, random) / fit.failure_rate.mean();
  double shapes = 0.0;
  double gammas = 0.0;
  std::vector<double> shares;
  for (const InterruptionCause& cause : job.causes) {
    const CauseFit* known = fitted_cause(fit, cause);
    const bool fatal = known != nullptr && cause.kind == FailureKind::Fatal;
    shares.push_back(fatal ? random.gamma(known->rate.shape) : 0.0);
    gammas += shares.back();
    if (fatal) shapes += known->rate.shape;
  }
  for (std::size_t i = 0; i < job.causes.size(); ++i) {
    const CauseFit* known = fitted_cause(fit, job.causes[i]);
    if (known == nullptr)
      drawn.rates.push_back(1.0);
    else if (job.causes[i].kind == FailureKind::Fatal)
      drawn.rates.push_back(drawn.all_rates * (shares[i] / gammas) * shapes / known->rate.shape);
    else
      drawn.rates.push_back(drawn_rate(known->rate, random) / known->rate.mean());
  }
}

// A recovery drawn from the logged ones with random weights. The weights stay the same for all
// draws of one run.
class WeightedRecoveries {
 public:
  WeightedRecoveries(const std::vector<double>& times_s, Random& random) : times_s_(times_s) {
    double sum = 0.0;
    for (std::size_t i = 0; i < times_s.size(); ++i) sums_.push_back(sum += exponential(random));
  }
  [[nodiscard]] double draw(Random& random) const {
    // Rounding may give the sum itself; the index stays within the list.
    const auto found = std::ranges::upper_bound(sums_, random.uniform() * sums_.back());
    return times_s_[std::min<std::size_t>(static_cast<std::size_t>(found - sums_.begin()),
                                          times_s_.size() - 1)];
  }

 private:
  const std::vector<double>& times_s_;
  std::vector<double> sums_;
};

// The run needs one factor on all phases of the recovery: the mean of as many drawn recoveries as
// failures are to come, over the mean of the log. Fewer than two recoveries tell nothing about
// their spread.
double draw_recovery(const std::vector<double>& times_s, double failures, Random random) {
  const double mean = times_s.empty() ? 0.0
                                      : std::accumulate(times_s.begin(), times_s.end(), 0.0) /
                                            static_cast<double>(times_s.size());
  if (times_s.size() < 2 || mean <= 0.0) return 1.0;
  const WeightedRecoveries recoveries(times_s, random);
  const auto count = static_cast<std::size_t>(std::max(1.0, std::round(failures)));
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += recoveries.draw(random);
  return sum / static_cast<double>(count) / mean;
}

// The samples of the bootstrap are the segments between interruptions, each with a random weight.
double draw_step(const LogFit& fit, Random random) {
  double steps = 0.0;
  double time_s = 0.0;
  for (const RunSegment& segment : fit.split.segments) {
    if (segment.steps <= 0.0) continue;
    const double weight = exponential(random);
    steps += weight * segment.steps;
    time_s += weight * segment.training_s;
  }
  return time_s / steps / *fit.step_s;
}

Job with_inputs(Job job, const DrawnInputs& drawn) {
  for (std::size_t i = 0; i < job.causes.size(); ++i) {
    job.causes[i].rate *= drawn.rates.empty() ? drawn.all_rates : drawn.rates[i];
    job.causes[i].detect_s *= drawn.recovery;
    job.causes[i].diagnose_s *= drawn.recovery;
  }
  for (double* const time_s : {&job.queue_s, &job.start_s, &job.communicator_init_s, &job.warm_up_s,
                               &job.spares.replace_s, &job.storage().load_s})
    *time_s *= drawn.recovery;
  if (job.spares.cold_replace_s) *job.spares.cold_replace_s *= drawn.recovery;
  job.step_s *= drawn.step;
  job.policy_step_s *= drawn.step;
  return job;
}

class Forecasting {
 public:
  Forecasting(const LogFit& fit, const Job& job, const ForecastOptions& options)
      : job_(job), options_(options) {
    const double failures = options.steps * job.step_s * fit.failure_rate.mean();
    // Each input has its own sequence of random numbers, so one more draw in one does not change
    // the others.
    const Random random = Random(options.seed).split("forecast");
    for (std::size_t i = 0; i < options.runs; ++i) {
      DrawnInputs drawn;
      draw_rates(fit, job, random.split("rates").split(i), drawn);
      drawn.recovery = draw_recovery(fit.downtimes_s, failures, random.split("recovery").split(i));
      drawn.step = draw_step(fit, random.split("step").split(i));
      inputs_.push_back(std::move(drawn));
    }
  }
  Forecast result();

 private:
  // The index is that of the run's random numbers. Inputs that differ see the same random numbers
  // at the same index.
  [[nodiscard]] double time_s(const DrawnInputs& drawn, std::size_t index) const {
    return sampled_run(with_inputs(job_, drawn), {.steps = options_.steps}, options_.seed, index)
        .wall_s;
  }
  // Half of the runs, since this is done seven times: for two values of three inputs, and for
  // chance alone.
  [[nodiscard]] Summary times_s(const DrawnInputs& drawn) const {
    std::vector<double> times;
    for (std::size_t i = 0; i < options_.runs / 2; ++i) times.push_back(time_s(drawn, i));
    return summary(std::move(times));
  }
  void add_input(const char* name, double DrawnInputs::*input, Forecast& forecast) const;

  const Job& job_;
  const ForecastOptions& options_;
  std::vector<DrawnInputs> inputs_;
};

void Forecasting::add_input(const char* name, double DrawnInputs::*input,
                            Forecast& forecast) const {
  std::vector<double> values;
  for (const DrawnInputs& drawn : inputs_) values.push_back(drawn.*input);
  const Summary spread = summary(std::move(values));
  DrawnInputs low;
  DrawnInputs high;
  low.*input = spread.p10;
  high.*input = spread.p90;
  forecast.inputs.push_back({name, times_s(low).p50, times_s(high).p50});
}

Forecast Forecasting::result() {
  std::vector<double> times;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    times.push_back(time_s(inputs_[i], i));
    if (options_.progress)
      options_.progress(static_cast<double>(i + 1) / static_cast<double>(inputs_.size()));
  }
  const Summary all = summary(std::move(times));
  Forecast forecast{.steps = options_.steps, .p10_s = all.p10, .p50_s = all.p50, .p90_s = all.p90};
  add_input("failure rates", &DrawnInputs::all_rates, forecast);
  add_input("time of recovery", &DrawnInputs::recovery, forecast);
  add_input("time of a step", &DrawnInputs::step, forecast);
  // All inputs have their means, so the runs differ only in which failures come.
  const Summary chance = times_s({});
  forecast.inputs.push_back({"which failures come", chance.p10, chance.p90});
  std::ranges::stable_sort(forecast.inputs, std::greater<>(), &ForecastInput::swing_s);
  return forecast;
}

}  // namespace

Forecast forecast_run(const LogFit& fit, const Job& job, const ForecastOptions& options) {
  return Forecasting(fit, job, options).result();
}

}  // namespace trainyard
