// Looks for starts and priorities with which jobs on one cluster slow each other least.
//
// A job that starts later sends while the others compute, and the links serve one after the other
// (the interleaving of CASSINI, NSDI 2024; here the step with the shift is simulated). Jobs are
// shifted one after the other against those before them, over one step of the job.
//
//    const ShiftSearch found = search_starts(jobs, 16, {}, memo);
//    found.best.all[1].start;   // Seconds
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/jobs/simulate_jobs.hpp"

namespace trainyard {

struct ShiftTrial {
  std::vector<double> starts_s;    // by job
  std::vector<double> priorities;  // by job
  std::vector<double> slowdowns;   // by job
  double mean_slowdown = 0.0;      // of a GPU of a training job (of any job, if none trains)
};

struct ShiftSearch {
  Jobs best;                       // with the starts and priorities found
  std::vector<ShiftTrial> trials;  // in the order tried; the first is the file's
  std::size_t best_trial = 0;
};

// Tries `points` starts for each job but the first, equally spaced over its step.
[[nodiscard]] ShiftSearch search_starts(const Jobs& jobs, std::uint32_t points,
                                        const JobsOptions& options, Memo& memo);

// Tries to give each job in turn `weight` times the share of the others, from equal shares.
[[nodiscard]] ShiftSearch search_priorities(const Jobs& jobs, double weight,
                                            const JobsOptions& options, Memo& memo);

[[nodiscard]] std::string shift_text(const ShiftSearch& search);
[[nodiscard]] nlohmann::ordered_json shift_json(const ShiftSearch& search);

}  // namespace trainyard
