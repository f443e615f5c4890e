// Does each change that `trainyard memory` proposes for a plan that does not fit have a simulation,
// fit, and have the smallest size?
#include "tools/studies/memory/ways_to_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sim/report/stage_summary.hpp"
#include "tools/studies/memory/changes.hpp"
#include "tools/studies/memory/memory_report.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using ScenarioRun = Result;

const char* const kFile = TRAINYARD_SOURCE_DIRECTORY "/scenarios/llama3/llama3_8b_8xh100.json";

std::int64_t worst_peak(const ScenarioRun& run) {
  return worst_stage(stage_memory(run.view()))->peak.bytes;
}

// Does the rule of thumb, 18 bytes per parameter and a quarter more, give the worked examples
// (oracle 58; stas00/ml-engineering insights/ai-battlefield.md)?
TEST(RuleOfThumb, WorkedExamples) {
  EXPECT_DOUBLE_EQ(rule_of_thumb(80e9, 80.0).gpus, 22.5);
  EXPECT_EQ(rule_of_thumb(80e9, 80.0).whole_gpus, 23);
  EXPECT_EQ(rule_of_thumb(70e9, 80.0).whole_gpus, 20);
  EXPECT_EQ(rule_of_thumb(175e9, 80.0).whole_gpus, 50);
  EXPECT_EQ(rule_of_thumb(405e9, 80.0).whole_gpus, 114);
  EXPECT_EQ(rule_of_thumb(671e9, 141.0).whole_gpus, 108);
}

// Is each proposed change simulated, and does it fit?
TEST(WaysToFit, EachIsSimulatedAndFits) {
  const std::vector<Override> too_much = {{"training.micro_batch_size", "4"},
                                          {"parallelism.zero_stage", "1"},
                                          {"training.recompute", "none"}};
  const Scenario scenario = load_scenario(kFile, too_much);
  const ScenarioRun run = simulate(scenario, {});
  ASSERT_EQ(worst_stage(stage_memory(run.view()))->fits, false);
  const FitSearch search = ways_to_fit({.scenario = {kFile, too_much}, .runs_most = 30}, scenario,
                                       fit_figures(scenario, run));
  ASSERT_FALSE(search.ways.empty());
  EXPECT_LE(search.runs, 30U);
  EXPECT_FALSE(search.singles.empty());
  for (const WayToFit& way : search.ways) EXPECT_TRUE(way.figures.fits && way.simulated);
  // The first change, run separately, gives the figures that the search reports for it.
  std::vector<Override> overrides = too_much;
  const WayToFit& first = search.ways.front();
  overrides.insert(overrides.end(), first.changes.begin(), first.changes.end());
  const ScenarioRun changed = simulate(load_scenario(kFile, overrides), {});
  EXPECT_EQ(worst_peak(changed), first.figures.peak_bytes);
  EXPECT_NEAR(changed.timeline.makespan_s, first.figures.step_time_s,
              1e-9 * first.figures.step_time_s);

  const MemoryReport report{.scenario = scenario, .run = run, .search = search};
  EXPECT_THAT(memory_text(report), HasSubstr(to_text(first.changes)));
  EXPECT_THAT(memory_text(report), HasSubstr("rule of thumb: 8.0 billion"));
  EXPECT_THAT(memory_page(report), HasSubstr("<svg"));
  const auto json = memory_json(report);
  EXPECT_EQ(json["ways_to_fit"].size(), search.ways.size());
  EXPECT_EQ(json["stages"][0]["peak_bytes"], worst_peak(run));
  EXPECT_EQ(json["stages"][0]["curve"]["time_s"].size(),
            json["stages"][0]["curve"]["by_category_bytes"]["weights"].size());
}

// Do changes name what they change? Every change that a plan allows names its fields in words that
// the reader accepts.
TEST(WaysToFit, ChangesSayWhatTheyChange) {
  const Scenario scenario = load_scenario(kFile, {{"parallelism.zero_stage", "1"}});
  std::set<std::string> said;
  for (const FitChange& change : fit_changes()) {
    Knobs knobs = knobs_of(scenario);
    if (!change.apply(knobs)) continue;
    const std::vector<Override> overrides = difference(scenario, knobs);
    EXPECT_FALSE(overrides.empty()) << change.kind;
    EXPECT_TRUE(said.insert(to_text(overrides)).second) << "twice: " << to_text(overrides);
  }
  EXPECT_TRUE(said.contains("training.recompute=full"));
  EXPECT_TRUE(said.contains("parallelism.zero_stage=3"));
  EXPECT_TRUE(said.contains("parallelism.tensor=4, parallelism.data=2"))
      << "half of the replicas for twice the tensor ranks";
  EXPECT_TRUE(said.contains("training.optimizer=adam_8bit"));
  EXPECT_TRUE(said.contains("offload.activations=0.5"));
  EXPECT_TRUE(said.contains("parallelism.data=8, cluster.nodes=2")) << "twice the GPUs";
}

// Do changes of recomputed layers leave nothing of the old choice? The change goes from a part of
// the layers to all of them and must remove the field that gave the part.
TEST(WaysToFit, ChangesOfRecomputedLayersLeaveNothingOfTheOldChoice) {
  const std::vector<Override> fraction = {{"training.recompute", "full"},
                                          {"training.recompute_method", "fraction"},
                                          {"training.recompute_fraction", "0.5"}};
  const std::vector<Override> listed = {{"training.recompute", "full"},
                                        {"training.recompute_method", "layers"},
                                        {"training.recompute_layers", "[0, 7]"}};
  for (const std::vector<Override>& part : {fraction, listed}) {
    const Scenario scenario = load_scenario(kFile, part);
    std::size_t changed = 0;
    for (const FitChange& change : fit_changes()) {
      Knobs knobs = knobs_of(scenario);
      if (std::string(change.kind) != "recompute" || !change.apply(knobs)) continue;
      std::vector<Override> overrides = part;
      for (Override& one : difference(scenario, knobs)) overrides.push_back(std::move(one));
      const Training now = load_scenario(kFile, overrides).plan.training;
      EXPECT_EQ(now.recompute_method, RecomputeMethod::Uniform);
      EXPECT_FALSE(now.recompute_fraction.has_value());
      EXPECT_TRUE(now.recompute_layers.empty());
      ++changed;
    }
    EXPECT_EQ(changed, 1U);
  }
}

// Does the search find pairs where no single change is enough? No single change makes the weights,
// gradients and states of 70B small enough: the search finds pairs, and the pairs that it left out
// by their least memory do not fit.
TEST(WaysToFit, PairsWhereNoSingleChangeIsEnough) {
  const std::string file = TRAINYARD_SOURCE_DIRECTORY "/scenarios/llama3/llama3_70b_64xh100.json";
  const std::vector<Override> too_much = {{"parallelism.tensor", "2"},
                                          {"parallelism.pipeline", "2"},
                                          {"parallelism.data", "16"},
                                          {"training.recompute", "none"}};
  const Scenario scenario = load_scenario(file, too_much);
  const FitSearch search = ways_to_fit({.scenario = {file, too_much}}, scenario,
                                       fit_figures(scenario, simulate(scenario, {})));
  EXPECT_EQ(search.changes_at_once, 2U);
  ASSERT_FALSE(search.ways.empty());
  double before = 0.0;
  for (const WayToFit& way : search.ways) {
    EXPECT_TRUE(way.figures.fits);
    EXPECT_LE(way.figures.peak_bytes, way.figures.capacity_bytes);
    EXPECT_GE(way.figures.gpu_seconds(), before) << "sorted by what they cost";
    before = way.figures.gpu_seconds();
  }
  EXPECT_THAT(first_way_line(search), HasSubstr(to_text(search.ways.front().changes)));
  std::size_t left_out = 0;
  for (const WayToFit& way : search.singles) {
    if (way.simulated || ++left_out > 3) continue;
    std::vector<Override> overrides = too_much;
    overrides.insert(overrides.end(), way.changes.begin(), way.changes.end());
    const Scenario changed = load_scenario(file, overrides);
    const FitFigures figures = fit_figures(changed, simulate(changed, {}));
    EXPECT_FALSE(figures.fits) << to_text(way.changes);
    EXPECT_GE(figures.peak_bytes, way.figures.peak_bytes) << to_text(way.changes);
  }
  EXPECT_GT(left_out, 0U);
}

}  // namespace
}  // namespace trainyard
