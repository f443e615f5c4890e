// Reads the configurations in this folder, and small ones written in a test, as the importers do.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "models/architecture/architecture.hpp"
#include "scenarios/import/training/training_format.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::test {

using Reader = ImportedScenario (*)(const ImportRequest&);

inline ImportFile shipped(const std::string& name) {
  const std::string file = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/" + name;
  return {.name = name, .text = read_file(file)};
}

// The shipped file with one piece of its text replaced, which must be there.
inline ImportFile changed(const std::string& name, const std::string& from, const std::string& to) {
  ImportFile file = shipped(name);
  const std::size_t at = file.text.find(from);
  EXPECT_NE(at, std::string::npos) << name << " holds no " << from;
  if (at != std::string::npos) file.text.replace(at, from.size(), to);
  return file;
}

inline std::string refusal(Reader read, const ImportRequest& request) {
  try {
    const ImportedScenario made = read(request);
    (void)read_scenario_document("made.json", made.scenario);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

// The scenario that the reader makes of the imported document, which it must take.
inline Scenario scenario_of(const ImportedScenario& made) {
  return read_scenario_document("made.json", made.scenario);
}

// A step of the scenario must take a time; its model FLOP/s must be those of a real GPU.
inline void expect_runs(const Scenario& scenario) {
  const Result result = simulate(scenario, {.figures = false});
  EXPECT_GT(result.timeline.makespan_s, 0.01);
  EXPECT_LT(result.timeline.makespan_s, 1000.0);
}

}  // namespace trainyard::test
