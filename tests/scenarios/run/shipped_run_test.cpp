// Every scenario in the folder runs: the small ones always, the large ones when TRAINYARD_FULL=1 is
// set; those that are not run are still loaded, lowered and checked, and named.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>

#include "runs.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGpusMost = 600;
// A step of so many operations takes seconds, however few GPUs it has.
constexpr std::size_t kOperationsMost = 400'000;

std::vector<std::string> shipped() {
  const fs::path folder = fs::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios";
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") && name != "scenario.schema.json") {
      files.insert(entry.path().string());
    }
  }
  return {files.begin(), files.end()};
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return fs::path(info.param).stem().string();
}

std::size_t operations_of(const Workload& workload) {
  std::size_t count = 0;
  for (const Program& program : workload.programs) count += program.operations.size();
  return count;
}

bool everything_runs() {
  const char* full = std::getenv("TRAINYARD_FULL");
  return full != nullptr && std::string_view(full) == "1";
}

class Shipped : public ::testing::TestWithParam<std::string> {};

TEST_P(Shipped, Runs) {
  const Scenario scenario = load_scenario(GetParam(), {});
  const Cluster cluster = build_cluster(scenario.cluster);
  const Workload workload = scenario_workload(scenario, cluster);
  EXPECT_NO_THROW(validate(workload, ""));
  EXPECT_EQ(std::ssize(workload.ranks), scenario.plan.world());
  const bool small =
      scenario.plan.world() <= kGpusMost && operations_of(workload) <= kOperationsMost;
  if (!small && !everything_runs()) {
    GTEST_SKIP() << scenario.plan.world() << " GPUs, " << operations_of(workload)
                 << " operations: loaded, lowered and checked; TRAINYARD_FULL=1 runs it";
  }
  const auto start = std::chrono::steady_clock::now();
  const ScenarioRun run = run_scenario(scenario, {});
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::cout << "  step " << run.timeline.makespan_s << " s, simulated in " << wall.count() << " s";
  for (const PublishedComparison& row : run.facts.published) {
    std::cout << "; " << row.figure << " " << 100.0 * row.error() << " %";
    EXPECT_GT(row.predicted, 0.0);
  }
  std::cout << "\n";
  expect_sound(run);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Shipped, ::testing::ValuesIn(shipped()), test_name);

}  // namespace
}  // namespace trainyard
