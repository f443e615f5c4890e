// The job of a fitted log: the block `reliability` with changes, and from it the job that runs are
// sampled of.
//
//    const Reliability changed = with_changes(log, fitted, {{"reliability.spares.nodes", "8"}});
//    sampled_run(job_of_log(log, fit, changed), {.steps = 1e5}, seed, 0);
#pragma once

#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/run_log/log_fit.hpp"

namespace trainyard {

// Applies changes such as reliability.checkpoint.interval_steps=100 and checks the result as a
// scenario's block is checked. Throws InputError with the change at fault.
[[nodiscard]] Reliability with_changes(const RunLog& log, const Reliability& reliability,
                                       const std::vector<Override>& changes);

// The job with the step of the log. Throws InputError where the log has no steps.
[[nodiscard]] Job job_of_log(const RunLog& log, const LogFit& fit, const Reliability& reliability);

// The fitted cause with the name and the kind of a cause of the job; nullptr without one.
[[nodiscard]] const CauseFit* fitted_cause(const LogFit& fit, const InterruptionCause& cause);

}  // namespace trainyard
