// Are the differences those that were made, and do the steps from one side to the other add up?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tools/studies/compare/comparison.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kEightGpus = TRAINYARD_SOURCE_DIRECTORY "/scenarios/llama3/llama3_8b_8xh100.json";

// Two tensor ranks and four replicas against four and two, with a smaller batch: tensor alone is
// not a valid scenario.
const Comparison& sample() {
  static const Comparison kComparison =
      compare({{.file = kEightGpus, .changes = {{"training.global_batch_size", "16"}}},
               {.file = kEightGpus,
                .changes = {{"parallelism.tensor", "4"},
                            {"parallelism.data", "2"},
                            {"training.global_batch_size", "16"},
                            {"training.recompute", "full"}}}},
              {.processes = 2, .progress = {}});
  return kComparison;
}

// Are the differences the fields that were changed?
TEST(Compare, DifferencesAreWhatWasChanged) {
  std::vector<std::string> paths;
  for (const InputDifference& difference : sample().differences) paths.push_back(difference.path);
  EXPECT_THAT(paths, ElementsAre("parallelism.tensor", "parallelism.data", "training.recompute"));
  EXPECT_EQ(sample().differences[0].values[0], 2);
  EXPECT_EQ(sample().differences[0].values[1], 4);
}

// Do the steps lead from one side to the other?
TEST(Compare, StepsLeadFromOneSideToTheOther) {
  ASSERT_EQ(sample().steps.size(), 2U);
  EXPECT_TRUE(sample().steps[0].empty());
  const std::vector<ChangeStep>& steps = sample().steps[1];
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_THAT(steps[0].paths, ElementsAre("parallelism.tensor", "parallelism.data"));
  EXPECT_THAT(steps[1].paths, ElementsAre("training.recompute"));
  EXPECT_GT(steps[1].step_time_s, steps[0].step_time_s) << "recomputation costs time";
  EXPECT_EQ(steps[1].step_time_s, sample().sides[1].figures.step_time_s);
}

// Does the mean breakdown sum to the step?
TEST(Compare, TheMeanBreakdownIsTheStep) {
  EXPECT_GE(sample().sides.size(), 2U);
  for (const ComparedSide& side : sample().sides) {
    double sum = 0.0;
    for (const auto& [name, seconds] : mean_breakdown(side.row)) sum += seconds;
    EXPECT_NEAR(sum, side.figures.step_time_s, 1e-9 * side.figures.step_time_s);
  }
}

// Do text, JSON and CSV report the same?
TEST(Compare, TextJsonAndCsvSayTheSame) {
  const std::string text = comparison_text(sample());
  EXPECT_THAT(text, HasSubstr("parallelism.tensor, parallelism.data"));
  const auto json = comparison_json(sample());
  EXPECT_EQ(json["sides"].size(), 2U);
  EXPECT_EQ(json["steps"][0]["changes"].size(), 2U);
  std::istringstream csv(comparison_csv(sample()));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "section,name,A,B");
  std::getline(csv, line);
  EXPECT_EQ(line, "input,parallelism.tensor,2,4");
}

// A side without a block `power` has no energy: neither one of nothing, nor one to compare with.
TEST(Compare, ASideWithoutPowerHasNoEnergy) {
  const std::string text = comparison_text(
      compare({{.file = kEightGpus}, {.file = kEightGpus, .changes = {{"power.pue", "1.2"}}}},
              {.processes = 2, .progress = {}}));
  const std::size_t row = text.find("energy of a step");
  ASSERT_NE(row, std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  EXPECT_THAT(line, testing::ContainsRegex("kWh +- +0.0"));
  EXPECT_EQ(line.find('%'), std::string::npos);
}

// Does the page hold the verdict and every change?
TEST(Compare, ThePageTellsTheVerdictAndEveryChange) {
  const double ratio =
      sample().sides[1].figures.step_time_s / sample().sides[0].figures.step_time_s;
  const std::string verdict = comparison_verdict(sample(), 1);
  EXPECT_THAT(verdict, HasSubstr(fmt::format("{:.1f} %", 100.0 * std::abs(ratio - 1.0))));
  EXPECT_THAT(verdict, HasSubstr(ratio < 1.0 ? "B is" : "slower than A"));
  const std::string page = comparison_page(sample());
  for (const std::string& part :
       {verdict, std::string("<h3>From A to B</h3>"),
        std::string("<dt>change 2</dt><dd>training.recompute</dd>"), std::string("id=\"links\"")})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, testing::Not(HasSubstr("http"))) << "it opens from disk, offline";
}

// Do equal sides differ in nothing?
TEST(Compare, EqualSidesDifferInNothing) {
  const Variant same{.file = kEightGpus, .changes = {{"training.global_batch_size", "4"}}};
  const Comparison comparison = compare({same, same}, {.processes = 1, .progress = {}});
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_THAT(comparison_text(comparison), HasSubstr("The inputs are the same."));
}

}  // namespace
}  // namespace trainyard
