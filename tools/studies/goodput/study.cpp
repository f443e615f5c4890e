#include "tools/studies/goodput/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "sim/base/error.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(std::string problem, std::string hint) {
  throw InputError(
      Problem{.file = {}, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

constexpr double kDaysMost = 36'500.0;

RunLength length_of(const GoodputQuestion& question, const Job& job) {
  if (question.days > 0.0) return {.wall_s = question.days * kSecondsPerDay};
  const RunLength length{.steps = job.steps_for(question.tokens)};
  const double days = length.steps * job.step_s / kSecondsPerDay;
  if (days > kDaysMost)
    refuse(fmt::format("{} tokens take {:.3g} days without a failure", question.tokens, days),
           fmt::format("give fewer tokens: a run has at most {} days", kDaysMost));
  return length;
}

// The memo must live as long as the job, which simulates other states of its cluster later, so
// step_in is wrapped in a function that holds it.
NamedJob named_job(const NamedScenario& one, const std::shared_ptr<Memo>& memo) {
  NamedJob named{one.name, job_of(one.scenario, *memo)};
  named.job.step_in = [memo, step_in = named.job.step_in](const JobState& state) {
    return step_in(state);
  };
  return named;
}

void check_causes(const Job& first, const NamedJob& other) {
  const auto same = [](const InterruptionCause& a, const InterruptionCause& b) {
    return a.name == b.name && a.kind == b.kind && a.of_parts == b.of_parts;
  };
  if (!std::ranges::equal(other.job.causes, first.causes, same))
    refuse(fmt::format("{} has other causes of failures", other.name),
           "alternatives are compared on the same failures: change something else, or run "
           "goodput twice");
}

std::vector<NamedJob> jobs_of(const GoodputQuestion& question) {
  const auto memo = std::make_shared<Memo>();
  std::vector<NamedJob> jobs;
  for (const NamedScenario& one : question.scenarios) {
    jobs.push_back(named_job(one, memo));
    check_causes(jobs.front().job, jobs.back());
  }
  return jobs;
}

// Where the best interval is longer than the run, the run writes one checkpoint, at its end.
std::int64_t within_run(const RunLength& length, double step_s, std::int64_t interval_steps) {
  const double steps = std::min(length.steps, std::floor(length.wall_s / step_s));
  return std::min(interval_steps, static_cast<std::int64_t>(std::max(1.0, steps)));
}

void limit_interval(const RunLength& length, Job& job) {
  if (!job.optimal_interval) return;
  const std::int64_t optimum = job.storage().interval_steps;
  job.storage().interval_steps = within_run(length, job.step_s, optimum);
  job.interval_is_run = job.storage().interval_steps < optimum;
  for (TrainingPhase& phase : job.phases)
    phase.interval_steps = within_run(length, phase.step_s, phase.interval_steps);
}

}  // namespace

GoodputReport GoodputStudy::report() const {
  return {.title = title,
          .job = jobs.front().job,
          .result = result,
          .length = length,
          .alternatives = jobs.size() > 1 ? alternatives : std::vector<Alternative>{}};
}

// The first run again: equal arguments give equal runs, so no run needs to keep its events.
std::vector<RunEvent> GoodputStudy::events() const {
  std::vector<RunEvent> events;
  (void)sampled_run(jobs.front().job, length, seed, 0, &events);
  return events;
}

GoodputStudy goodput_study(const GoodputQuestion& question) {
  for (const double length : {question.days, question.tokens})
    if (!(length >= 0.0) || !std::isfinite(length))
      refuse(fmt::format("{} is no number of days or tokens", length), "give a number above 0");
  if ((question.days > 0.0) == (question.tokens > 0.0))
    refuse("how long is the run?", "give either --days or --tokens");
  const Scenario& first = question.scenarios.front().scenario;
  GoodputStudy study{.title = first.description.empty() ? first.file : first.description,
                     .jobs = jobs_of(question),
                     .length = {},
                     .seed = question.seed,
                     .result = {},
                     .alternatives = {}};
  Job& job = study.jobs.front().job;
  if (question.price_per_gpu_hour) {
    job.gpu_hour_price = question.price_per_gpu_hour;
    job.price_source.clear();
  }
  // Tokens become steps of the first job. Alternatives with other batches do as many steps.
  study.length = length_of(question, job);
  for (NamedJob& one : study.jobs) limit_interval(study.length, one.job);
  GoodputOptions options{.file = first.file,
                         .length = study.length,
                         .seed = question.seed,
                         .runs = question.runs,
                         .progress = question.progress,
                         .end = question.end};
  study.result = goodput(job, options);
  options.progress = {};
  study.alternatives = alternatives(study.jobs, study.result.runs, options);
  return study;
}

std::vector<VariantGoodput> goodput_of_variants(const std::vector<NamedScenario>& variants,
                                                double days) {
  const auto memo = std::make_shared<Memo>();
  const RunLength length{.wall_s = days * kSecondsPerDay};
  std::vector<NamedJob> jobs;    // the first sound one, and a variant after it
  std::vector<SampledRun> runs;  // of the first sound one
  std::optional<InputError> refusal;
  std::vector<VariantGoodput> all;
  for (const NamedScenario& one : variants) {
    jobs.resize(runs.empty() ? 0 : 1);
    try {
      jobs.push_back(named_job(one, memo));
      check_causes(jobs.front().job, jobs.back());
      limit_interval(length, jobs.back().job);
      const GoodputOptions options{.file = one.scenario.file, .length = length};
      const std::vector<SampledRun> first =
          runs.empty() ? sampled_runs(jobs.front().job, options) : runs;
      all.push_back({.figures = alternatives(jobs, first, options).back()});
      runs = first;
    } catch (const InputError& error) {
      if (!refusal) refusal = error;
      all.push_back({.refused = error.what()});
      all.back().figures.name = one.name;
    }
  }
  if (runs.empty() && refusal) throw InputError(*refusal);
  return all;
}

}  // namespace trainyard
