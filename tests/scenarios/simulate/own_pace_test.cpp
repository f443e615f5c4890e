// Workers that do not wait for each other: each makes as many steps as it can finish.
#include "scenarios/simulate/own_pace.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "runs.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {
namespace {

std::vector<double> every(double seconds, int steps) {
  std::vector<double> ends;
  for (int step = 1; step <= steps; ++step) ends.push_back(seconds * step);
  return ends;
}

using Steps = std::vector<std::uint32_t>;

// Do the numbers of steps follow the rates?
TEST(OwnPace, StepsFollowTheRates) {
  const std::vector<std::vector<double>> ends = {every(0.5, 30), every(1.0, 30)};
  EXPECT_EQ(divide_steps(ends, 60, {}), (Steps{40, 20}));
  const std::vector<std::vector<double>> equal = {every(0.5, 30), every(0.5, 30)};
  EXPECT_EQ(divide_steps(equal, 60, {}), (Steps{30, 30}));
  EXPECT_EQ(divide_steps(equal, 61, {}), (Steps{31, 30}));
}

// Is no worker further ahead than the bound?
TEST(OwnPace, NobodyIsFurtherAheadThanTheBound) {
  const std::vector<std::vector<double>> ends = {every(0.5, 30), every(1.0, 30)};
  EXPECT_EQ(divide_steps(ends, 60, 3U), (Steps{32, 28}));
  EXPECT_EQ(divide_steps(ends, 60, 0U), (Steps{30, 30}));
}

// Does every worker make at least one step?
TEST(OwnPace, EverybodyMakesAStep) {
  const std::vector<std::vector<double>> ends = {every(0.01, 2), every(1.0, 2)};
  EXPECT_EQ(divide_steps(ends, 4, {}), (Steps{3, 1}));
}

// GPT-2 124M on a DGX A100 and a DGX H100 node: 14 workers and two servers. Without a staleness
// there is no bound.
Scenario mixed(std::optional<int> staleness) {
  return load_scenario(TRAINYARD_SOURCE_DIRECTORY
                       "/scenarios/replicas/gpt2_124m_mixed_servers.json",
                       {{"parameter_servers.asynchronous", staleness ? "false" : "true"},
                        {"parameter_servers.staleness", std::to_string(staleness.value_or(0))}});
}

// The steps per second of a worker in the middle half of its steps.
double rate(const std::vector<double>& ends) {
  const std::size_t first = ends.size() / 4;
  const std::size_t last = 3 * ends.size() / 4;
  return static_cast<double>(last - first) / (ends[last] - ends[first]);
}

// Is the asynchronous throughput the sum of the workers' rates?
TEST(OwnPace, AsynchronousThroughputIsTheSumOfTheRates) {
  const Scenario scenario = mixed({});
  const ScenarioRun run = simulate(scenario, {});
  expect_sound(run);
  double rates = 0.0;
  std::size_t made = 0;
  const auto ends = step_ends(run, scenario.plan);
  for (const std::vector<double>& worker : ends) {
    rates += rate(worker);
    made += worker.size();
  }
  EXPECT_EQ(made, ends.size() * static_cast<std::size_t>(scenario.plan.servers.steps));
  EXPECT_GT(ends.back().size(), 3 * ends.front().size() / 2) << "H100s make more steps";
  // A step that a worker has not finished at the end is not counted: half a step of each on
  // average.
  const double throughput = static_cast<double>(made) / run.timeline.makespan_s;
  EXPECT_LE(throughput, rates * 1.01);
  EXPECT_GE(throughput, rates * 0.95);
}

// Is a step shorter if workers wait less for each other?
TEST(OwnPace, WhoWaitsLessIsQuicker) {
  const double together = simulate(mixed(0), {}).timeline.makespan_s;
  const double bounded = simulate(mixed(4), {}).timeline.makespan_s;
  const double apart = simulate(mixed({}), {}).timeline.makespan_s;
  EXPECT_LT(bounded, together * 0.97);
  EXPECT_LT(apart, bounded * 0.9);
}

// Do folded and unfolded runs agree?
TEST(OwnPace, FoldedIsUnfolded) {
  for (const std::optional<int> staleness : {std::optional<int>(), std::optional<int>(4)}) {
    const Scenario scenario = mixed(staleness);
    const double folded = simulate(scenario, {}).timeline.makespan_s;
    const double unfolded = simulate(scenario, {.fold = false}).timeline.makespan_s;
    EXPECT_TRUE(agree(folded, unfolded)) << folded << " " << unfolded;
  }
}

// Are what-ifs independent of their order? The numbers of steps depend on the what-if, not on
// earlier ones.
TEST(OwnPace, WhatIfsDoNotDependOnTheirOrder) {
  const Scenario scenario = mixed({});
  Memo memo;
  const double plain = simulate(scenario, {}, memo).timeline.makespan_s;
  const double quicker = simulate(scenario, {.what_if = {.gemm = 0.5}}, memo).timeline.makespan_s;
  EXPECT_LT(quicker, plain);
  EXPECT_EQ(simulate(scenario, {}, memo).timeline.makespan_s, plain);
}

}  // namespace
}  // namespace trainyard
