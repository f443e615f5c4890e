// Does a run report the error of measured runs of its kind, and is the table the one that was
// found?
#include <gtest/gtest.h>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/measured_error.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/report.hpp"
#include "tools/studies/validate/row_scenario.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

MeasuredRow measured_row(const std::string& source) {
  for (MeasuredRow& row :
       read_dataset(TRAINYARD_SOURCE_DIRECTORY "/tests/measured/published_runs.json")) {
    if (row.source == source) return row;
  }
  throw std::out_of_range(source);
}

Outcome off_by(const MeasuredRow& row, double error) {
  Outcome outcome{.row = row};
  outcome.predicted_s = row.step_time_s * (1.0 + error);
  outcome.scenario = row_scenario(load_row_tables(), row);
  return outcome;
}

// Does the table hold each kind with five runs, and its generation of GPUs?
TEST(ErrorTable, HasEachKindWithFiveRunsAndItsGenerationOfGpus) {
  const MeasuredRow a100 = measured_row("korthikanti");
  std::vector<Outcome> outcomes;
  for (const double error : {0.10, -0.10, 0.05, -0.05, 0.20})
    outcomes.push_back(off_by(a100, error));
  outcomes.push_back(off_by(measured_row("simumax"), 0.5));  // alone of its kind
  outcomes.push_back({.row = a100, .reason = "refused"});
  outcomes.push_back({.row = a100, .predicted_s = 1.0});  // a collective
  const Json table = error_table(outcomes, "by hand");
  EXPECT_EQ(table.at("source"), "by hand");
  const Json expected = Json::parse(R"([
    {"generation": "ampere", "bits": 16, "experts": false,
     "runs": 5, "mape": 0.1, "bias": 0.04, "p90": 0.2},
    {"generation": "ampere", "runs": 5, "mape": 0.1, "bias": 0.04, "p90": 0.2}])");
  EXPECT_EQ(table.at("kinds"), expected);
}

Scenario scenario_with(const Json& change) {
  Json document = Json::parse(read_file(std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) /
                                        "scenarios/llama3/llama3_8b_8xh100.json"));
  document.merge_patch(change);
  return read_scenario_document("changed", document);
}

// Is the measured error that of the run's kind?
TEST(MeasuredErrorOf, IsThatOfTheRunsKind) {
  const auto dense = measured_error(scenario_with(Json::object()));
  ASSERT_TRUE(dense);
  EXPECT_EQ(dense->kind, "16-bit dense models on hopper");
  EXPECT_GE(dense->runs, kRunsLeast);
  EXPECT_GT(dense->mape, 0.0);
  EXPECT_LE(dense->mape, dense->p90);
  const auto eight = measured_error(scenario_with({{"training", {{"recipe", "fp8"}}}}));
  ASSERT_TRUE(eight);
  EXPECT_EQ(eight->kind, "8-bit dense models on hopper");
}

// Do kinds of few runs report the error of their generation?
TEST(MeasuredErrorOf, KindsOfFewRunsAreToldByTheirGeneration) {
  const auto wide = measured_error(scenario_with({{"training", {{"precision", "fp32"}}}}));
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->kind, "all kinds on hopper");
}

// Is the error unknown for a generation without measurements?
TEST(MeasuredErrorOf, IsNotKnownOfAGenerationNobodyMeasured) {
  EXPECT_FALSE(measured_error(scenario_with({{"cluster", {{"node", "mi300x"}}}})));
}

}  // namespace
}  // namespace trainyard
