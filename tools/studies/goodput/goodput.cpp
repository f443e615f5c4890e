#include "tools/studies/goodput/goodput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/reliability/checkpoint_interval.hpp"
#include "sim/base/error.hpp"
#include "sim/base/sample_mean.hpp"

namespace trainyard {

namespace {

// Runs between two looks at the half-width: even, so that no antithetic pair is divided.
constexpr std::size_t kRunsAtOnce = 50;
constexpr std::size_t kRunsMost = 100'000;
constexpr std::size_t kRunsOfPoint = 100;  // of a point of the curve over intervals

double goodput_of(const SampledRun& run) { return run.phase(RunPhase::Productive) / run.wall_s; }

// The value below which a share of the sorted values lies, linear between two of them.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Antithetic partners stand side by side and depend on each other; their means do not.
std::vector<double> pair_means(const std::vector<double>& values) {
  std::vector<double> means;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2)
    means.push_back((values[i] + values[i + 1]) / 2.0);
  return means;
}

// Half the width of the 95 % confidence interval of the mean; none is known of a single pair.
double half_width_of(const std::vector<double>& runs) {
  const std::vector<double> values = pair_means(runs);
  if (values.empty()) return std::numeric_limits<double>::infinity();
  return sample_mean(values).half_width;
}

std::vector<double> values_of(const std::vector<SampledRun>& runs,
                              const std::function<double(const SampledRun&)>& value) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const SampledRun& run : runs) values.push_back(value(run));
  return values;
}

void check_length(const Job& job, const GoodputOptions& options) {
  const double interval_s = static_cast<double>(job.storage().interval_steps) * job.step_s;
  const double run_s = std::min(options.length.wall_s, options.length.steps * job.step_s);
  if (interval_s <= run_s) return;
  throw InputError(
      Problem{.file = options.file,
              .pointer = "/reliability/checkpoint",
              .problem = fmt::format("an interval of {} is longer than the run of {}",
                                     to_text(Seconds{interval_s}), to_text(Seconds{run_s})),
              .hint = "shorten the interval, or lengthen the run"});
}

struct Candidate {
  const char* mark;
  double interval_s;
};

// The intervals of the closed forms, and a curve around the last of them: the exact optimum, or the
// scenario's own interval where no failure or no stall defines one.
std::vector<Candidate> candidates(const Job& job) {
  const double mtbf = job.storage_mtbf_s();
  const double own = static_cast<double>(job.storage().interval_steps) * job.step_s;
  std::vector<Candidate> all{{"scenario", own}};
  const double loss_s = job.checkpoint_loss_s();
  if (std::isfinite(mtbf) && loss_s > 0.0) {
    all.push_back({"Young", reliability::young_interval(loss_s, mtbf)});
    all.push_back({"Daly", reliability::daly_interval(loss_s, mtbf)});
    all.push_back({"exact optimum", reliability::exact_interval(loss_s, mtbf)});
  }
  const double middle = all.back().interval_s;
  for (const double factor : {0.25, 0.5, 2.0, 4.0, 8.0}) all.push_back({"", middle * factor});
  return all;
}

// The same job with each interval and the same failures. Intervals that are shorter than the write
// or longer than the run are left out. Young, Daly and the exact optimum often round to equal
// numbers of steps; these share a row.
std::vector<IntervalPoint> interval_points(Job job, const GoodputOptions& options,
                                           std::size_t runs) {
  GoodputOptions of_point = options;
  of_point.runs = std::min(runs, kRunsOfPoint);
  of_point.progress = {};
  std::vector<IntervalPoint> points;
  for (const Candidate& candidate : candidates(job)) {
    const std::int64_t steps =
        std::max<std::int64_t>(1, std::llround(candidate.interval_s / job.step_s));
    const double interval_s = static_cast<double>(steps) * job.step_s;
    const bool runs_over =
        interval_s > options.length.wall_s || static_cast<double>(steps) > options.length.steps;
    if (interval_s < job.storage().write_s || runs_over) continue;
    const auto same = std::find_if(points.begin(), points.end(), [&](const IntervalPoint& point) {
      return point.steps == steps;
    });
    if (same != points.end()) {
      if (*candidate.mark != '\0') same->mark += fmt::format(", {}", candidate.mark);
      continue;
    }
    job.set_interval(steps);
    const Summary known = summary(values_of(sampled_runs(job, of_point), goodput_of));
    points.push_back({candidate.mark, steps, interval_s, known.mean, known.half_width});
  }
  std::sort(points.begin(), points.end(),
            [](const IntervalPoint& a, const IntervalPoint& b) { return a.steps < b.steps; });
  return points;
}

// Causes with times from a log keep them: their rates are not used.
void halve_rates(Job& job) {
  for (InterruptionCause& cause : job.causes) cause.rate /= 2.0;
}
void halve_detection(Job& job) {
  for (InterruptionCause& cause : job.causes) cause.detect_s /= 2.0;
}
void halve_diagnosis(Job& job) {
  for (InterruptionCause& cause : job.causes) cause.diagnose_s /= 2.0;
}
void halve_replacement(Job& job) {
  job.spares.replace_s /= 2.0;
  if (job.spares.cold_replace_s) *job.spares.cold_replace_s /= 2.0;
}
void halve_repair(Job& job) {
  if (job.spares.repair_s) *job.spares.repair_s /= 2.0;
  job.spares.manual_repair_s /= 2.0;
}
void halve_interval(Job& job) {
  const CheckpointLevel& storage = job.storage();
  // A write must be complete before the next one begins.
  const auto written = static_cast<std::int64_t>(std::ceil(storage.write_s / job.step_s));
  job.set_interval(std::max({std::int64_t{1}, written, storage.interval_steps / 2}));
}

void halve_stalls(Job& job) {
  for (CheckpointLevel& level : job.levels) level.stall_s /= 2.0;
}
// The delay of training goes with the write: half the write shares the NICs for half the time.
void halve_writes(Job& job) {
  for (CheckpointLevel& level : job.levels) {
    level.write_s /= 2.0;
    level.drag_s /= 2.0;
  }
  for (TrainingPhase& phase : job.phases)
    for (double& drag_s : phase.drags_s) drag_s /= 2.0;
}
void halve_loads(Job& job) {
  for (CheckpointLevel& level : job.levels) level.load_s /= 2.0;
}
void halve_pauses(Job& job) {
  for (PauseSettings& pause : job.pauses)
    if (pause.duration) pause.duration = *pause.duration / 2.0;
}

struct Halving {
  const char* name;
  void (*halve)(Job& job);
};
constexpr std::array kHalvings{
    Halving{"failure rates", halve_rates},
    Halving{"checkpoint interval", halve_interval},
    Halving{"checkpoint stall", halve_stalls},
    Halving{"checkpoint write", halve_writes},
    Halving{"detection", halve_detection},
    Halving{"diagnosis", halve_diagnosis},
    Halving{"wrong diagnoses", [](Job& job) { job.misdiagnosis /= 2.0; }},
    Halving{"replacement by a node", halve_replacement},
    Halving{"repair", halve_repair},
    Halving{"queue", [](Job& job) { job.queue_s /= 2.0; }},
    Halving{"start of processes", [](Job& job) { job.start_s /= 2.0; }},
    Halving{"communicator init", [](Job& job) { job.communicator_init_s /= 2.0; }},
    Halving{"load checkpoint", halve_loads},
    Halving{"warm-up", [](Job& job) { job.warm_up_s /= 2.0; }},
    Halving{"reconfiguration", [](Job& job) { job.reconfigure_s /= 2.0; }},
    Halving{"pauses", halve_pauses},
    Halving{"lemon nodes", [](Job& job) { job.lemons.share /= 2.0; }}};

// Samples the job with each quantity halved and compares it run by run with `runs`: both see the
// same failures, so the difference is known better than either goodput. A quantity that is zero, or
// that does not matter, changes no run and is left out.
std::vector<HalvedQuantity> halved_quantities(const Job& job, const GoodputOptions& options,
                                              const std::vector<SampledRun>& runs) {
  GoodputOptions of_point = options;
  of_point.runs = std::min(runs.size(), kRunsOfPoint);
  of_point.progress = {};
  std::vector<HalvedQuantity> all;
  for (const Halving& halving : kHalvings) {
    Job changed = job;
    halving.halve(changed);
    const std::vector<SampledRun> other = sampled_runs(changed, of_point);
    std::vector<double> gains;
    for (std::size_t i = 0; i < other.size(); ++i)
      gains.push_back(goodput_of(other[i]) - goodput_of(runs[i]));
    const Summary gain = summary(gains);
    if (gain.mean != 0.0) all.push_back({halving.name, gain.mean, gain.half_width});
  }
  std::stable_sort(all.begin(), all.end(), [](const HalvedQuantity& a, const HalvedQuantity& b) {
    return a.gain > b.gain;
  });
  return all;
}

void add_means(const std::vector<SampledRun>& runs, Goodput& all) {
  const auto count = static_cast<double>(runs.size());
  all.by_cause.resize(runs.front().interruptions.size());
  for (const SampledRun& run : runs) {
    for (std::size_t i = 0; i < kPhases; ++i) all.phases_s[i] += run.phases_s[i] / count;
    for (std::size_t i = 0; i < run.interruptions.size(); ++i)
      all.by_cause[i] += static_cast<double>(run.interruptions[i]) / count;
    all.nodes_lost += static_cast<double>(run.nodes_lost) / count;
    all.without_spare += static_cast<double>(run.without_spare) / count;
  }
}

// Productive time is the time of the steps with all replicas, so goodput is also the share of the
// tokens that a job without interruptions would train.
double tokens_per_second(const Job& job, const std::vector<SampledRun>& runs,
                         const Summary& goodput) {
  if (job.phases.empty()) return goodput.mean * job.tokens_per_step / job.step_s;
  return mean_of(values_of(
      runs, [&job](const SampledRun& run) { return job.tokens_of(run.steps) / run.wall_s; }));
}

// With one phase, tokens and MFU are proportional to steps and goodput.
Summary scaled(const Summary& one, double factor) {
  return {.mean = one.mean * factor,
          .half_width = one.half_width * factor,
          .p10 = one.p10 * factor,
          .p50 = one.p50 * factor,
          .p90 = one.p90 * factor};
}

// The time that the steps of a phase take with all replicas, in a run of so many steps.
double time_in_phase(const Job& job, std::size_t phase, double steps) {
  const double begin = job.phases[phase].from_step;
  return std::max(0.0, std::min(steps, job.end_of(phase)) - begin) * job.phases[phase].step_s;
}

// With several phases, steps differ in tokens and MFU. The MFU over the calendar is then the sum
// over the phases of MFU times the time of their steps with all replicas, over the wall time.
void add_tokens(const Job& job, Goodput& all) {
  if (job.phases.empty()) {
    all.tokens = scaled(all.steps, job.tokens_per_step);
    all.mfu = scaled(all.goodput, job.mfu);
    return;
  }
  all.tokens = summary(
      values_of(all.runs, [&job](const SampledRun& run) { return job.tokens_of(run.steps); }));
  all.mfu = summary(values_of(all.runs, [&job](const SampledRun& run) {
    double useful_s = 0.0;
    for (std::size_t i = 0; i < job.phases.size(); ++i)
      useful_s += job.phases[i].mfu * time_in_phase(job, i, run.steps);
    return useful_s / run.wall_s;
  }));
  for (std::size_t i = 0; i < job.phases.size(); ++i)
    all.training_phases_s.push_back(mean_of(values_of(
        all.runs, [&job, i](const SampledRun& run) { return time_in_phase(job, i, run.steps); })));
}

}  // namespace

Summary summary(std::vector<double> values) {
  const double mean = mean_of(values);
  const double half_width = half_width_of(values);
  std::sort(values.begin(), values.end());
  return {.mean = mean,
          .half_width = half_width,
          .p10 = quantile(values, 0.1),
          .p50 = quantile(values, 0.5),
          .p90 = quantile(values, 0.9)};
}

// Run i depends on the job, the length, the seed and i alone. Equal indices of two jobs can thus be
// compared run by run, and more runs extend a list without changing its first ones.
std::vector<SampledRun> sampled_runs(const Job& job, const GoodputOptions& options) {
  std::vector<SampledRun> runs;
  const std::size_t most = options.runs > 0 ? options.runs : kRunsMost;
  while (runs.size() < most) {
    const std::size_t batch = std::min(kRunsAtOnce, most - runs.size());
    for (std::size_t i = 0; i < batch; ++i)
      runs.push_back(sampled_run(job, options.length, options.seed, runs.size()));
    if (options.end && options.end()) throw Cancelled("interrupted");
    if (options.progress)
      options.progress(static_cast<double>(runs.size()) / static_cast<double>(most));
    if (options.runs > 0) continue;
    const Summary known = summary(values_of(runs, goodput_of));
    if (known.half_width <= options.half_width * known.mean) break;
  }
  return runs;
}

std::vector<Alternative> alternatives(const std::vector<NamedJob>& jobs,
                                      const std::vector<SampledRun>& first,
                                      const GoodputOptions& options) {
  GoodputOptions same = options;
  same.runs = first.size();
  std::vector<Alternative> all;
  for (const NamedJob& one : jobs) {
    check_length(one.job, options);
    const std::vector<SampledRun> runs = all.empty() ? first : sampled_runs(one.job, same);
    std::vector<double> gains;
    for (std::size_t i = 0; i < runs.size(); ++i)
      gains.push_back(goodput_of(runs[i]) - goodput_of(first[i]));
    const Summary known = summary(values_of(runs, goodput_of));
    constexpr double kSecondsPerHour = 3600.0;
    const double tokens_per_s = tokens_per_second(one.job, runs, known);
    all.push_back({.name = one.name,
                   .goodput = known,
                   .gain = summary(gains),
                   .gpus = one.job.gpus,
                   .tokens_per_gpu_hour =
                       tokens_per_s * kSecondsPerHour / static_cast<double>(one.job.gpus)});
  }
  return all;
}

Goodput goodput(const Job& job, const GoodputOptions& options) {
  check_length(job, options);
  Goodput all;
  all.runs = sampled_runs(job, options);
  const std::vector<SampledRun>& runs = all.runs;
  all.goodput = summary(values_of(runs, goodput_of));
  all.ettr = summary(values_of(runs, [](const SampledRun& run) {
    return goodput_of(run) + run.phase(RunPhase::Degraded) / run.wall_s;
  }));
  all.wall_s = summary(values_of(runs, [](const SampledRun& run) { return run.wall_s; }));
  all.steps = summary(values_of(runs, [](const SampledRun& run) { return run.steps; }));
  all.interruptions =
      summary(values_of(runs, [](const SampledRun& run) { return run.all_interruptions(); }));
  add_tokens(job, all);
  add_means(runs, all);
  all.halved = halved_quantities(job, options, runs);
  all.intervals = interval_points(job, options, runs.size());
  return all;
}

}  // namespace trainyard
