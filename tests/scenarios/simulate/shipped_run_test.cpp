// Runs of every scenario of the repository.
#include <gtest/gtest.h>

#include <iostream>

#include "runs.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "tests/scenarios/shipped.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return fs::path(info.param).stem().string();
}

class Shipped : public ::testing::TestWithParam<std::string> {};

// Does the scenario run, and is the result sound?
TEST_P(Shipped, Runs) {
  const Scenario scenario = load_scenario(GetParam(), {});
  const Cluster cluster = build_cluster(scenario.cluster);
  const Workload workload = scenario_workload(scenario, cluster);
  EXPECT_NO_THROW(validate(workload, ""));
  EXPECT_EQ(std::ssize(workload.ranks), scenario.plan.world());
  const ScenarioRun run = simulate(scenario, {});
  std::cout << "  step " << run.timeline.makespan_s << " s";
  for (const PublishedComparison& row : run.facts.published) {
    std::cout << "; " << row.figure << " " << 100.0 * row.error() << " %";
    EXPECT_GT(row.predicted, 0.0);
  }
  std::cout << "\n";
  expect_sound(run);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Shipped, ::testing::ValuesIn(shipped_scenarios()), test_name);

// Does the suite above run all scenarios?
TEST(ShippedScenarios, AreAllThere) { EXPECT_GE(shipped_scenarios().size(), 64U); }

}  // namespace
}  // namespace trainyard
