#include "tools/studies/goodput/phases.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Problems are reported at the phase, since the file has them there.
Scenario scenario_of(const Scenario& whole, const Json& document, std::size_t index) {
  try {
    return read_scenario_document(whole.file, document);
  } catch (const InputError& error) {
    Problem problem = error.problems().front();
    problem.problem = fmt::format("{}: {}", problem.pointer, problem.problem);
    problem.pointer = fmt::format("/reliability/phases/{}", index);
    problem.file = whole.file;
    throw InputError(std::move(problem));
  }
}

}  // namespace

std::vector<ScenarioPhase> scenario_phases(const Scenario& scenario) {
  const std::vector<PhaseSettings>& settings = scenario.reliability->phases;
  if (settings.empty()) return {};
  std::vector<ScenarioPhase> phases;
  if (settings.front().from_tokens > 0.0) {
    phases.push_back({.from_tokens = 0.0, .scenario = scenario});
    phases.back().scenario.reliability.reset();
  }
  Json whole = resolved(scenario);
  whole.erase("reliability");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    Json document = whole;
    Json& training = document["training"];
    if (settings[i].global_batch_size > 0)
      training["global_batch_size"] = settings[i].global_batch_size;
    if (settings[i].sequence_length > 0) training["sequence_length"] = settings[i].sequence_length;
    phases.push_back(
        {.from_tokens = settings[i].from_tokens, .scenario = scenario_of(scenario, document, i)});
  }
  return phases;
}

}  // namespace trainyard
