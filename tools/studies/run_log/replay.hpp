// The failures of a log again, at the same times, under other policies: more spares, another
// interval between checkpoints, a faster restart.
//
//    const Job traced = with_trace(log, fit, job);
//    const Replay replay = replay_run(traced, {{"8 spares", other}}, options);
//    replay.variants[0].saved_s.mean;   // seconds by which the run would have been shorter
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/run_log/log_fit.hpp"

namespace trainyard {

struct ReplayOptions {
  double steps = 0.0;         // of the log, which every variant completes
  double productive_s = 0.0;  // that these steps took
  std::size_t runs = 100;     // they differ in what the log does not tell, such as repairs
  std::uint64_t seed = 0;
};

struct ReplayVariant {
  std::string name;
  Job job;
};

struct ReplayedRuns {
  std::string name;
  Summary wall_s;
  Summary goodput;        // productive time of the log / wall time
  Summary interruptions;  // of the trace that fell into the run
  Summary saved_s;        // wall time of the original minus that of the variant, run by run
};

struct Replay {
  ReplayedRuns original;
  std::vector<ReplayedRuns> variants;
};

// The job with the times of the log's interruptions in place of random ones, counted from the first
// step of the log. Interruptions before it are left out.
[[nodiscard]] Job with_trace(const RunLog& log, const LogFit& fit, Job job);

// When the first step of the log begins. REQUIRES: the log has steps.
[[nodiscard]] double first_step_s(const RunLog& log);

[[nodiscard]] Replay replay_run(const Job& original, const std::vector<ReplayVariant>& variants,
                                const ReplayOptions& options);

}  // namespace trainyard
