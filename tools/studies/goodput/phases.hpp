// The phases of a run, as reliability.phases lists them: each has a scenario of its own, with
// another batch or sequence length.
//
//    for (const ScenarioPhase& phase : scenario_phases(scenario)) simulate(phase.scenario, {});
#pragma once

#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

struct ScenarioPhase {
  double from_tokens = 0.0;
  Scenario scenario;                // without a reliability block
  std::int64_t interval_steps = 0;  // between checkpoints in storage; 0: as the whole run
};

// In the order of time; the first begins with the run. Empty where the scenario lists none. The
// reader has checked that the scenario can have each batch and sequence.
[[nodiscard]] std::vector<ScenarioPhase> scenario_phases(const Scenario& scenario);

}  // namespace trainyard
