#include "tools/studies/run_log/replay.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "tools/studies/run_log/log_job.hpp"

namespace trainyard {

namespace {

// Transient stalls are spans of the log, because the job stays up. Only failures and planned stops
// are in the list of interruptions.
std::vector<double> times_of(const RunLog& log, const InterruptionCause& cause, double begin_s) {
  std::vector<double> times;
  const auto add = [&](double time_s) {
    if (time_s >= begin_s) times.push_back(time_s - begin_s);
  };
  for (const LoggedInterruption& one : log.interruptions)
    if (one.kind == cause.kind && normalised_word(one.cause) == normalised_word(cause.name))
      add(one.time_s);
  if (cause.kind != FailureKind::Transient) return times;
  for (const PhaseSpan& span : log.spans)
    if (span.phase == RunPhase::Stalled &&
        normalised_word(span.name) == normalised_word(cause.name))
      add(span.begin_s);
  return times;
}

// Run i of a variant has the seed and the index of run i of the original, so their difference comes
// from the policies and not from the random numbers.
std::vector<SampledRun> replayed(const Job& job, const ReplayOptions& options) {
  std::vector<SampledRun> runs;
  for (std::size_t i = 0; i < options.runs; ++i)
    runs.push_back(sampled_run(job, {.steps = options.steps}, options.seed, i));
  return runs;
}

ReplayedRuns summary_of(const std::string& name, const std::vector<SampledRun>& runs,
                        const std::vector<SampledRun>& original, double productive_s) {
  std::vector<double> wall_s, goodput, interruptions, saved_s;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SampledRun& run = runs[i];
    wall_s.push_back(run.wall_s);
    goodput.push_back(productive_s / run.wall_s);
    interruptions.push_back(run.all_interruptions());
    saved_s.push_back(original[i].wall_s - run.wall_s);
  }
  return {.name = name,
          .wall_s = summary(std::move(wall_s)),
          .goodput = summary(std::move(goodput)),
          .interruptions = summary(std::move(interruptions)),
          .saved_s = summary(std::move(saved_s))};
}

}  // namespace

double first_step_s(const RunLog& log) {
  TY_CHECK(!log.marks.empty(), log.file);
  return log.marks.front().time_s;
}

// A cause that the log does not have (it comes from a preset or from --set) keeps its random times.
Job with_trace(const RunLog& log, const LogFit& fit, Job job) {
  for (InterruptionCause& cause : job.causes)
    if (fitted_cause(fit, cause) != nullptr)
      cause.trace_s = times_of(log, cause, first_step_s(log));
  return job;
}

Replay replay_run(const Job& original, const std::vector<ReplayVariant>& variants,
                  const ReplayOptions& options) {
  const std::vector<SampledRun> runs = replayed(original, options);
  Replay replay{.original = summary_of("as in the log", runs, runs, options.productive_s),
                .variants = {}};
  for (const ReplayVariant& variant : variants)
    replay.variants.push_back(
        summary_of(variant.name, replayed(variant.job, options), runs, options.productive_s));
  return replay;
}

}  // namespace trainyard
