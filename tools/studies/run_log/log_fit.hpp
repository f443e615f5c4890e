// The facts about a job in its run's log: failure rates by cause with intervals, the shape of the
// gaps, lemon nodes, recovery, checkpoints and steps. As a block `reliability` it is a preset for
// `goodput`.
//
//    const RunLog log = read_run_log("my_run.csv");
//    const LogFit fit = fit_log(log, {});
//    fit.causes[0].rate.mean() * 86400.0;   // events a day
//    fitted_reliability(log, fit);          // {"failures": [...], "checkpoint": ...}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/studies/run_log/failure_statistics.hpp"
#include "tools/studies/run_log/phases.hpp"
#include "tools/studies/run_log/run_log.hpp"

namespace trainyard {

// The preset counts as a log with `events` failures of this job, in the time in which the job has
// so many by the preset's rates. Its causes share them in proportion to their rates.
struct FitPrior {
  std::string preset;  // empty: Jeffreys' prior
  double events = 10.0;
};

struct CauseFit {
  std::string cause;
  FailureKind kind = FailureKind::Fatal;
  std::int64_t events = 0;  // in the log
  GammaRate rate = {};      // per second, of the whole job
  std::optional<WeibullShape> gaps = {};
  bool names_nodes = false;  // most events name the node that failed
  double duration_s = 0.0;   // transient: mean
};

struct LogFit {
  PhaseSplit split;
  std::vector<CauseFit> causes;  // those of the log, then those of the preset alone
  std::int64_t failures = 0;     // fatal, in the log
  GammaRate failure_rate;        // of all fatal causes together, per second
  std::optional<WeibullShape> gaps;
  std::vector<LemonNode> lemons;
  std::int64_t nodes_compared = 0;  // among which lemons were looked for; 0: no node is named

  // The duration of each complete recovery from a failure (from a planned stop where there were no
  // failures), and the mean of each phase. The remainder is not explained.
  std::vector<double> downtimes_s;
  std::array<double, kPhases> recovery_s{};
  double recovery_not_explained_s = 0.0;
  double replacement_s = 0.0;  // mean over the failures that name their node
  // A step while the job is up, with all that is neither a checkpoint nor a transient stall.
  std::optional<double> step_s;
  std::optional<double> checkpoint_stall_s;  // mean
  std::optional<double> interval_steps;      // between checkpoints
  std::string interval_from;                 // "checkpoints in the log"

  [[nodiscard]] double goodput(const RunLog& log) const {
    return split.phase(RunPhase::Productive) / log.wall_s();
  }
};

// Throws InputError where the preset does not exist, has no cause of the log, or needs a number of
// nodes or GPUs that the log does not tell.
[[nodiscard]] LogFit fit_log(const RunLog& log, const FitPrior& prior);

// The block that `goodput --preset FILE` takes. Phases that the log does not tell are absent;
// recovery that no phase explains is part of `start`.
[[nodiscard]] Reliability fitted_reliability(const RunLog& log, const LogFit& fit);

}  // namespace trainyard
