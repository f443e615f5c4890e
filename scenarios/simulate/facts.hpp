// Figures of a scenario that sim/ cannot know: tokens, FLOPs, peaks, and what was published.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Everything known before the run.
[[nodiscard]] RunFacts scenario_facts(const Scenario& scenario, const Cluster& cluster);
[[nodiscard]] std::size_t footprint(const RunFacts& facts);

// Adds what the run tells to the facts: engine, memory of a GPU, and approximations, in order.
[[nodiscard]] RunFacts with_run(RunFacts facts, const Cluster& cluster, const Timeline& timeline,
                                const std::vector<Approximation>& of_fold,
                                const std::vector<Approximation>& of_costs);

// The published figures beside the predictions of a run that took `step_time`.
[[nodiscard]] std::vector<PublishedComparison> compare_published(const Scenario& scenario,
                                                                 const RunFacts& facts,
                                                                 Seconds step_time);

// Writes wall time since its making, and the peak memory of the process, into the facts.
class Stopwatch {
 public:
  void record(RunFacts& facts) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trainyard
