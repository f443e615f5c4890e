// What `trainyard memory` proposes for a plan that does not fit is simulated, fits, and is
// smallest.
#include "scenarios/memory/ways_to_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scenarios/memory/memory_report.hpp"
#include "scenarios/memory/rule_of_thumb.hpp"
#include "sim/report/stage_memory.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using ScenarioRun = Run;

const char* const kFile = TRAINYARD_SOURCE_DIRECTORY "/scenarios/llama3/llama3_8b_8xh100.json";

std::int64_t worst_peak(const ScenarioRun& run) {
  return worst_stage(stage_memory(run.view()))->peak.bytes;
}

// Oracle 58 and the other worked lines of the source.
TEST(RuleOfThumb, WorkedExamples) {
  EXPECT_DOUBLE_EQ(rule_of_thumb(80e9, 80.0).gpus, 22.5);
  EXPECT_EQ(rule_of_thumb(80e9, 80.0).whole_gpus, 23);
  EXPECT_EQ(rule_of_thumb(70e9, 80.0).whole_gpus, 20);
  EXPECT_EQ(rule_of_thumb(175e9, 80.0).whole_gpus, 50);
  EXPECT_EQ(rule_of_thumb(405e9, 80.0).whole_gpus, 114);
  EXPECT_EQ(rule_of_thumb(671e9, 141.0).whole_gpus, 108);
}

TEST(WaysToFit, EachIsSimulatedAndFits) {
  const std::vector<Override> too_much = {{"training.micro_batch_size", "4"},
                                          {"parallelism.zero_stage", "1"},
                                          {"training.recompute", "none"}};
  const Scenario scenario = load_scenario(kFile, too_much);
  const ScenarioRun run = run_scenario(scenario, {});
  ASSERT_EQ(worst_stage(stage_memory(run.view()))->fits, false);
  const FitSearch search = ways_to_fit({.file = kFile, .overrides = too_much, .runs_most = 30},
                                       scenario, worst_peak(run));
  ASSERT_FALSE(search.ways.empty());
  EXPECT_LE(search.runs, 30U);
  EXPECT_FALSE(search.singles.empty());
  for (const Way& way : search.ways) EXPECT_TRUE(way.fits);
  // The first, run by hand, gives what the search says of it.
  std::vector<Override> overrides = too_much;
  const Way& first = search.ways.front();
  overrides.insert(overrides.end(), first.changes.begin(), first.changes.end());
  const ScenarioRun changed = run_scenario(load_scenario(kFile, overrides), {});
  EXPECT_EQ(worst_peak(changed), first.peak_bytes);
  EXPECT_NEAR(changed.timeline.makespan_s, first.step_time_s, 1e-9 * first.step_time_s);

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

}  // namespace
}  // namespace trainyard
