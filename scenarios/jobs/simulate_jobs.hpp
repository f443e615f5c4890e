// Simulates several jobs on one cluster: the step of each job alone and beside the others.
//
//    const JobsResult result = simulate_jobs(load_jobs("two_jobs.json", {}));
//    result.jobs[0].together_s / result.jobs[0].alone_s;   // the slowdown
//
// The engine plays a number of steps of every job together. A job with `steps` in the file makes
// that many; the others make steps as long as any of those run. Where no job has `steps`, the jobs
// run until their steps repeat (repetition.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "scenarios/jobs/jobs.hpp"
#include "scenarios/jobs/joint_workload.hpp"
#include "scenarios/jobs/link_sharing.hpp"
#include "scenarios/jobs/repetition.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/memo.hpp"
#include "sim/report/energy_figures.hpp"

namespace trainyard {

struct JobsOptions {
  bool fold = true;      // false: every rank is simulated
  bool contract = true;  // false: every operation has separate events
  // Limits while a repetition is looked for: the steps of the job with the longest step, and the
  // operations of all rank classes and steps, of which each takes some 50 bytes.
  std::uint32_t most_steps = 64;
  std::uint64_t most_operations = 40'000'000;
  std::function<void(double)> progress = {};
  std::stop_token stop = {};
};

struct JobResult {
  std::string name = {};
  std::vector<std::uint32_t> gpus = {};  // in the order of the job's ranks
  double tokens_per_step = 0.0;          // 0: traffic
  double alone_s = 0.0;                  // step time on the same GPUs without the other jobs
  // Mean step time beside the others: over the repetition, or over the steps that ended while all
  // jobs without `steps` still had steps to make.
  double together_s = 0.0;
  double shortest_s = 0.0;  // of these steps
  double longest_s = 0.0;
  std::uint32_t steps = 0;          // these steps
  double from_s = 0.0;              // when the first of them begins
  std::vector<double> ends_s = {};  // of all steps, since the clock's start
  std::int64_t peak_bytes = 0;      // memory of the GPU that needs the most; 0: traffic
  // Energy of all its GPUs in a step. Traffic has that of the first job with a block `power`.
  std::optional<double> alone_j = {};     // absent without a block `power`
  std::optional<double> together_j = {};  // mean of these steps; absent where JobsResult::power is
  // An hour of one of its GPUs: rent, or else capital without electricity. Absent without a price.
  std::optional<double> gpu_hour_cost = {};

  [[nodiscard]] double slowdown() const { return together_s / alone_s; }
  // The cost of its GPUs for a million tokens with steps of this time. Absent without a price.
  [[nodiscard]] std::optional<double> cost_of_million_tokens(double step_s) const;
};

// The power of the cluster over the time that a JobsResult is of.
struct ClusterPower {
  PowerSeries watts = {};  // with hosts, switches and cooling
  PowerPeaks peaks = {};
  EnergyPrices prices = {};  // of the building: those of electricity and of carbon

  [[nodiscard]] double mean_w() const {
    return watts.joules() / (watts.end_s - watts.at_s.front());
  }
};

struct JobsResult {
  Result run;  // of all jobs together, for traces and reports of links
  std::vector<JobPart> parts;
  std::vector<JobResult> jobs;
  bool counted = false;                  // a job says how many steps it makes
  std::optional<Repetition> repetition;  // none: `steps` are given, or none was found
  std::vector<LinkSharing> sharing;      // the most shared time first
  std::optional<ClusterPower> power;     // where every job that trains has a block `power`
  double begin_s = 0.0;                  // the time that sharing, power and step times are of
  double end_s = 0.0;
};

// Throws InputError for a job whose placement or software does not fit, and what simulate() throws.
[[nodiscard]] JobsResult simulate_jobs(const Jobs& jobs, const JobsOptions& options, Memo& memo);
[[nodiscard]] JobsResult simulate_jobs(const Jobs& jobs, const JobsOptions& options = {});

}  // namespace trainyard
