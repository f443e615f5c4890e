// The figures of a scenario that sim/ cannot derive: tokens, FLOPs, peaks, and published results.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Returns everything that is known before the run.
[[nodiscard]] RunFacts scenario_facts(const Scenario& scenario, const Cluster& cluster,
                                      bool described);
[[nodiscard]] std::size_t footprint(const RunFacts& facts);

// Adds the results of the run to the facts: engine, memory of a GPU, and approximations, in order.
[[nodiscard]] RunFacts with_run(RunFacts facts, const Cluster& cluster, const Timeline& timeline,
                                const std::vector<Approximation>& of_fold,
                                const std::vector<Approximation>& of_costs);

// Returns the published figures with the predictions of a run that took `step_time`.
[[nodiscard]] std::vector<PublishedComparison> compare_published(const Scenario& scenario,
                                                                 const RunFacts& facts,
                                                                 Seconds step_time);

// Records the wall time since its construction and the peak memory of the process.
class Stopwatch {
 public:
  void record(RunFacts& facts) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trainyard
