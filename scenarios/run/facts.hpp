// Figures of a scenario that sim/ cannot know: tokens, FLOPs, peaks, and what was published.
#pragma once

#include "scenarios/scenario.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Everything known before the run.
[[nodiscard]] RunFacts scenario_facts(const Scenario& scenario, const Cluster& cluster);

// The published figures beside the predictions of a run that took `step_time`.
[[nodiscard]] std::vector<PublishedComparison> compare_published(const Scenario& scenario,
                                                                 const RunFacts& facts,
                                                                 Seconds step_time);

}  // namespace trainyard
