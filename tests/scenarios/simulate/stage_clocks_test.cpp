// Do lower clocks turn bubbles into saved energy without making the step longer than allowed?

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runs.hpp"
#include "sim/report/energy_figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {
namespace {

using Clocks = std::vector<std::int64_t>;

// Four stages of a model whose head is small beside a layer.
Scenario pipeline(const Clocks& layers, std::vector<Override> more) {
  auto document = small_document({.tensor = 2, .pipeline = 4, .microbatches = 32});
  document["model"]["hidden"] = 4096;
  document["model"]["ffn"] = 16384;
  document["model"]["vocab"] = 1024;
  document["training"]["sequence_length"] = 2048;
  document["model"]["max_positions"] = 2048;
  document["defaults"] = "ideal";
  document["parallelism"]["layers_per_stage"] = layers;
  document["power"] = {{"pue", 1.2}};
  return load(document, more);
}

double joules(const ScenarioRun& run) { return energy_figures(run.view()).step.total(); }

// Every stage is as slow as the slowest one, so that each lower clock makes the step longer.
TEST(StageClocks, EqualStagesSaveNothing) {
  const ScenarioRun full = simulate(pipeline({2, 2, 2, 2}, {}));
  const ScenarioRun run = simulate(pipeline({2, 2, 2, 2}, {{"power.clock_tolerance", "0"}}));
  ASSERT_TRUE(run.facts.clocks.has_value());
  EXPECT_EQ(run.facts.clocks->percent, (Clocks{100, 100, 100, 100}));
  EXPECT_EQ(run.timeline.makespan_s, full.timeline.makespan_s);
  EXPECT_EQ(joules(run), joules(full));
  EXPECT_EQ(run.facts.clocks->full_step_j, joules(full));
}

TEST(StageClocks, StagesWithLessWorkSaveEnergyWithinTheTolerance) {
  int cases = 0;
  for (const Clocks& layers : {Clocks{2, 1, 4, 1}, Clocks{1, 1, 1, 5}, Clocks{5, 1, 1, 1}}) {
    const ScenarioRun full = simulate(pipeline(layers, {}));
    const ScenarioRun run = simulate(pipeline(layers, {{"power.clock_tolerance", "0.02"}}));
    EXPECT_LE(run.timeline.makespan_s, 1.02 * full.timeline.makespan_s * (1 + 1e-9));
    EXPECT_LT(joules(run), 0.95 * joules(full));
    const Clocks& found = run.facts.clocks->percent;
    const auto slowest = std::ranges::max_element(layers) - layers.begin();
    EXPECT_GE(found[static_cast<std::size_t>(slowest)], 98);
    EXPECT_LT(std::ranges::min(found), 80);
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

// A first stage that is the slowest hides what the others do, so that no tolerance is needed.
TEST(StageClocks, BubblesOfTheLastStagesSaveEnergyAtAnUnchangedStep) {
  const ScenarioRun full = simulate(pipeline({5, 1, 1, 1}, {}));
  const ScenarioRun run = simulate(pipeline({5, 1, 1, 1}, {{"power.clock_tolerance", "0"}}));
  EXPECT_LE(run.timeline.makespan_s, full.timeline.makespan_s * (1 + 1e-9));
  EXPECT_LE(joules(run), joules(full));
}

// Are clocks lowered for the shares that balancing finds, and both reported? The first stage has a
// slow GPU, so that it gets fewer layers, and a head that is not small.
TEST(StageClocks, AreThoseOfBalancedShares) {
  Scenario scenario = pipeline({2, 2, 2, 2}, {{"power.clock_tolerance", "0.02"}});
  scenario.plan.parallelism.layers_per_stage.clear();
  scenario.plan.parallelism.balance = Balance::Auto;
  scenario.cluster.faults = {
      {.part = Fault::Part::Device, .device = "node 0 gpu 0", .speed_factor = 0.5}};
  const ScenarioRun run = simulate(scenario);
  ASSERT_TRUE(run.facts.balance.has_value());
  ASSERT_TRUE(run.facts.clocks.has_value());
  EXPECT_LT(run.facts.balance->layers.front(), 2);
  scenario.plan.parallelism.balance = Balance::Equal;
  scenario.plan.parallelism.layers_per_stage = run.facts.balance->layers;
  const ScenarioRun given = simulate(scenario);
  EXPECT_EQ(run.facts.clocks->percent, given.facts.clocks->percent);
  EXPECT_EQ(run.timeline.makespan_s, given.timeline.makespan_s);
  EXPECT_EQ(joules(run), joules(given));
}

// Are the reported figures those of a run with the reported clocks, folded or not?
TEST(StageClocks, TheClocksThatWereFoundGiveTheSameRun) {
  const ScenarioRun found = simulate(pipeline({2, 1, 4, 1}, {{"power.clock_tolerance", "0.02"}}));
  const std::string clocks = nlohmann::ordered_json(found.facts.clocks->percent).dump();
  const Scenario given = pipeline({2, 1, 4, 1}, {{"power.stage_clocks", clocks}});
  const ScenarioRun run = simulate(given);
  EXPECT_EQ(run.timeline.makespan_s, found.timeline.makespan_s);
  EXPECT_EQ(joules(run), joules(found));
  EXPECT_FALSE(run.facts.clocks.has_value());
  const ScenarioRun unfolded = simulate(given, {.fold = false});
  EXPECT_TRUE(agree(unfolded.timeline.makespan_s, run.timeline.makespan_s));
  EXPECT_NEAR(joules(unfolded) / joules(run), 1.0, 1e-9);
}

TEST(StageClocks, TheTraceOfLowerClocksIntegratesToTheEnergy) {
  const ScenarioRun run =
      simulate(pipeline({2, 1, 4, 1}, {{"power.stage_clocks", "[80, 60, 100, 60]"}}));
  const PowerTraces traces =
      power_traces(*run.cluster, *run.workload, *run.partition, run.timeline, *run.power);
  EXPECT_NEAR(traces.cluster.joules() / joules(run), 1.0, 1e-9);
}

// At half the clock, work of the tensor cores takes twice as long, that of the memory does not.
TEST(StageClocks, AnyStageSlowsDownByItsClockAtMost) {
  const ScenarioRun full = simulate(pipeline({2, 2, 2, 2}, {}));
  const ScenarioRun half =
      simulate(pipeline({2, 2, 2, 2}, {{"power.stage_clocks", "[50, 50, 50, 50]"}}));
  EXPECT_LT(half.timeline.makespan_s, 2.0 * full.timeline.makespan_s);
  EXPECT_GT(half.timeline.makespan_s, 1.5 * full.timeline.makespan_s);
  EXPECT_LT(power_peaks(half.view()).gpu_w, power_peaks(full.view()).gpu_w);
}

TEST(StageClocks, ACapIsKeptBesideThem) {
  const ScenarioRun run = simulate(pipeline(
      {2, 2, 2, 2}, {{"power.stage_clocks", "[50, 100, 100, 90]"}, {"power.gpu_cap_w", "300"}}));
  EXPECT_LE(power_peaks(run.view()).gpu_w, 300.0 + 1e-9);
}

// A larger tolerance allows what a smaller one does. Does it take no more energy?
TEST(StageClocks, ALargerToleranceTakesNoMoreEnergy) {
  double before_j = joules(simulate(pipeline({2, 2, 2, 2}, {})));
  for (const char* tolerance : {"0.02", "0.05", "0.1", "0.3"}) {
    const double now_j =
        joules(simulate(pipeline({2, 2, 2, 2}, {{"power.clock_tolerance", tolerance}})));
    EXPECT_LE(now_j, before_j * 1.0005) << tolerance;
    before_j = std::min(before_j, now_j);
  }
}

TEST(StageClocks, TheReportSaysWhatTheySave) {
  const ScenarioRun run = simulate(pipeline({2, 1, 4, 1}, {{"power.clock_tolerance", "0.02"}}));
  EXPECT_THAT(energy_section(run.view()), testing::HasSubstr("clocks of the stages"));
  const auto json = result_json(run.view())["clocks"];
  EXPECT_EQ(json["stage_percent"].size(), 4U);
  EXPECT_EQ(json["full_step_time_s"], run.facts.clocks->full_step_s);
}

}  // namespace
}  // namespace trainyard
