// Does the interval of a step follow from its parts, and is it wider where less is known?
#include "scenarios/simulate/step_interval.hpp"

#include <gtest/gtest.h>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

Scenario scenario_with(const Json& change) {
  Json document = parse_unchecked_json(read_file(std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) /
                                                 "scenarios/llama3/llama3_8b_8xh100.json"));
  document.merge_patch(change);
  return read_scenario_document("changed", document);
}

const UncertainPart* part_named(const StepInterval& interval, Uncertain kind) {
  for (const UncertainPart& part : interval.parts)
    if (part.name == texts_of(kind).name) return &part;
  return nullptr;
}

double share_of(const Scenario& scenario, Uncertain kind) {
  const Result run = simulate(scenario);
  return uncertain_shares(scenario, run.view()).at(static_cast<std::size_t>(kind));
}

// Are the shares of kinds those of the breakdown?
TEST(StepInterval, DividesTheStepAmongItsKinds) {
  const Scenario scenario = scenario_with(Json::object());
  const Result run = simulate(scenario);
  const UncertainShares shares = uncertain_shares(scenario, run.view());
  const Breakdown mean = mean_breakdown(stage_breakdown(run.view()));
  const auto share = [&](Uncertain kind) { return shares.at(static_cast<std::size_t>(kind)); };
  const double exposed = mean.of(TimeShare::ExposedTensor) + mean.of(TimeShare::ExposedData) +
                         mean.of(TimeShare::ExposedOther);
  EXPECT_GT(exposed, 0.05 * run.view().step_s());
  EXPECT_NEAR(share(Uncertain::WithinNodes), exposed / run.view().step_s(), 1e-12);
  EXPECT_EQ(share(Uncertain::BetweenNodes), 0.0);  // one node
  EXPECT_EQ(share(Uncertain::Software), 1.0);
  EXPECT_EQ(share(Uncertain::Gemms8) + share(Uncertain::Experts) + share(Uncertain::SheetGpu), 0.0);
  ASSERT_TRUE(run.facts.interval);
  EXPECT_LT(run.facts.interval->low_s(), run.view().step_s());
  EXPECT_GT(run.facts.interval->high_s(), run.view().step_s());
}

// Are GEMMs of fp8 in the kind of 8 bits?
TEST(StepInterval, KnowsTheWidthOfGemms) {
  const Scenario eight = scenario_with({{"training", {{"recipe", "fp8"}}}});
  EXPECT_GT(share_of(eight, Uncertain::Gemms8), 0.3);
}

// Is a GPU priced by another chip less certain, with kernels measured on it as the remedy?
TEST(StepInterval, IsWiderForAGpuKnownByItsDataSheet) {
  const Result measured = simulate(scenario_with(Json::object()));
  const Result sibling = simulate(scenario_with({{"cluster", {{"node", "dgx_h200"}}}}));
  const Result sheet = simulate(scenario_with({{"cluster", {{"node", "mi300x"}}}}));
  ASSERT_TRUE(measured.facts.interval && sibling.facts.interval && sheet.facts.interval);
  EXPECT_LT(measured.facts.interval->deviation(), sibling.facts.interval->deviation());
  EXPECT_LT(sibling.facts.interval->deviation(), sheet.facts.interval->deviation());
  const UncertainPart* const part = part_named(*sheet.facts.interval, Uncertain::SheetGpu);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->cause, "mi300x");
  EXPECT_NE(part->remedy.find("profile measure"), std::string::npos);
  EXPECT_EQ(part_named(*measured.facts.interval, Uncertain::SiblingGpu), nullptr);
}

// Is a framework without measured runs less certain?
TEST(StepInterval, NamesAFrameworkWithoutMeasuredRuns) {
  const Result known = simulate(scenario_with({{"framework", "nemo"}}));
  const Result unknown = simulate(scenario_with({{"framework", "maxtext"}}));
  EXPECT_EQ(part_named(*known.facts.interval, Uncertain::NewFramework), nullptr);
  EXPECT_NE(part_named(*unknown.facts.interval, Uncertain::NewFramework), nullptr);
}

// Have ideal runs, which correspond to no real one, and bare step times no interval?
TEST(StepInterval, IsAbsentForIdealRuns) {
  EXPECT_FALSE(simulate(scenario_with({{"defaults", "ideal"}})).facts.interval);
  EXPECT_FALSE(simulate(scenario_with(Json::object()), {.figures = false}).facts.interval);
}

}  // namespace
}  // namespace trainyard
