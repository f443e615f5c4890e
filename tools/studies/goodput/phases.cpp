#include "tools/studies/goodput/phases.hpp"

namespace trainyard {

std::vector<ScenarioPhase> scenario_phases(const Scenario& scenario) {
  const std::vector<PhaseSettings>& settings = scenario.reliability->phases;
  if (settings.empty()) return {};
  Scenario whole = scenario;
  whole.reliability.reset();
  std::vector<ScenarioPhase> phases;
  if (settings.front().from_tokens > 0.0) phases.push_back({.from_tokens = 0.0, .scenario = whole});
  for (const PhaseSettings& phase : settings) {
    phases.push_back({.from_tokens = phase.from_tokens,
                      .scenario = whole,
                      .interval_steps = phase.interval_steps});
    Training& training = phases.back().scenario.plan.training;
    if (phase.global_batch_size > 0) training.global_batch_size = phase.global_batch_size;
    if (phase.sequence_length > 0) training.sequence_length = phase.sequence_length;
  }
  return phases;
}

}  // namespace trainyard
