// The goodput of a job: sampled runs until their mean is known well enough, and the same for other
// intervals between checkpoints.
//
//    const Goodput all = goodput(job, {.length = {.wall_s = 54 * 86400.0}});
//    all.goodput.mean;   // productive time / wall time
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"

namespace trainyard {

struct GoodputOptions {
  std::string file = {};  // of the scenario, for messages
  RunLength length = {};
  std::uint64_t seed = 0;
  std::size_t runs = 0;       // 0: until the half-width is small enough
  double half_width = 0.002;  // of the 95 % interval of the mean goodput, relative to the mean
  std::function<void(double)> progress = {};  // receives the completed fraction
  std::function<bool()> end = {};             // polled; true ends the study with Cancelled
};

// Mean over the runs with the half-width of its 95 % confidence interval (Student's t), and
// quantiles of the runs.
struct Summary {
  double mean = 0.0;
  double half_width = 0.0;
  double p10 = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
};
[[nodiscard]] Summary summary(std::vector<double> values);

struct IntervalPoint {
  std::string mark;  // "Young", "Daly", "exact optimum", "scenario", or nothing
  std::int64_t steps = 0;
  double interval_s = 0.0;
  double goodput = 0.0;
  double half_width = 0.0;
};

// The gain of halving one quantity: the failure rates, a time of the checkpoint, or a phase of the
// recovery. Both sides see the same failures.
struct HalvedQuantity {
  std::string name;         // "failure rates"
  double gain = 0.0;        // in goodput, mean of the differences run by run
  double half_width = 0.0;  // of its 95 % interval
};

struct Goodput {
  std::vector<SampledRun> runs;
  Summary goodput;  // productive / wall
  Summary ettr;     // (productive + degraded) / wall
  Summary wall_s;
  Summary steps;
  Summary tokens;
  Summary mfu;                             // over the wall time
  Summary interruptions;                   // of a run, of all causes
  std::vector<double> by_cause;            // mean number in a run
  std::array<double, kPhases> phases_s{};  // means; their sum is the mean wall time
  std::vector<double> training_phases_s;   // means: productive time by phase of Job::phases
  double nodes_lost = 0.0;                 // mean
  double without_spare = 0.0;              // mean
  std::vector<HalvedQuantity> halved;      // the largest gain first
  std::vector<IntervalPoint> intervals;    // in increasing order
};

// Samples as many runs as the options say, or as the mean goodput needs.
[[nodiscard]] std::vector<SampledRun> sampled_runs(const Job& job, const GoodputOptions& options);

// Another job on the same failures, against the first of a list.
struct Alternative {
  std::string name;
  Summary goodput;
  Summary gain;  // in goodput, run by run
  std::int64_t gpus = 0;
  double tokens_per_gpu_hour = 0.0;
};
struct NamedJob {
  std::string name;
  Job job;
};
// As many runs of each job as of the first. REQUIRES: the jobs have the same causes, in the same
// order.
[[nodiscard]] std::vector<Alternative> alternatives(const std::vector<NamedJob>& jobs,
                                                    const std::vector<SampledRun>& first,
                                                    const GoodputOptions& options);

// Throws InputError if the interval between checkpoints is longer than the run.
[[nodiscard]] Goodput goodput(const Job& job, const GoodputOptions& options);

}  // namespace trainyard
