// The figures that rate predictions, and the fit of constants, on numbers computed by hand.
#include "tools/studies/validate/score.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/validate/calibration.hpp"
#include "tools/studies/validate/collective_rows.hpp"
#include "tools/studies/validate/report.hpp"

namespace trainyard {
namespace {

MeasuredRow timed_row(const std::string& id, double seconds) {
  MeasuredRow row{.id = id, .source = id.substr(0, id.find('-')), .step_time_s = seconds};
  row.description = parse_unchecked_json(
      R"({"hardware": {"gpu": "H100", "num_gpus": 16}, "parallel": {"tp": 8, "dp": 2}})");
  return row;
}

Outcome predicted(MeasuredRow row, double seconds) {
  Outcome outcome{.row = std::move(row)};
  outcome.predicted_s = seconds;
  outcome.parts = {{.name = "compute: gemm", .seconds = 0.75 * seconds},
                   {.name = "bubble", .seconds = 0.25 * seconds}};
  return outcome;
}

Outcome refused(MeasuredRow row, std::string reason) {
  return {.row = std::move(row), .reason = std::move(reason)};
}

// Is the score that of the worked example?
TEST(Score, IsThatOfTheWorkedExample) {
  const Score score = score_of(std::vector<double>{0.10, -0.02, -0.03});
  EXPECT_EQ(score.rows, 3U);
  EXPECT_NEAR(score.mape, 0.05, 1e-12);
  EXPECT_NEAR(score.bias, 0.05 / 3.0, 1e-12);
  EXPECT_NEAR(score.median, 0.03, 1e-12);
  EXPECT_NEAR(score.p90, 0.10, 1e-12);
  EXPECT_NEAR(score.worst, 0.10, 1e-12);
}

// Is the score of no rows zero?
TEST(Score, OfNothingIsZero) { EXPECT_EQ(score_of({}).rows, 0U); }

// Is the percentile the nearest rank?
TEST(Score, ThePercentileIsTheNearestRank) {
  std::vector<double> errors;
  for (int i = 1; i <= 20; ++i) errors.push_back(0.01 * i);
  EXPECT_NEAR(score_of(errors).p90, 0.18, 1e-12);
  EXPECT_NEAR(score_of(errors).median, 0.10, 1e-12);
}

// Are rows without a prediction counted with their reason?
TEST(Score, RowsWithoutPredictionAreCountedWithTheirReason) {
  const std::vector<Outcome> outcomes = {predicted(timed_row("a-1", 10.0), 11.0),
                                         predicted(timed_row("a-2", 10.0), 8.0),
                                         refused(timed_row("b-1", 1.0), "no such precision"),
                                         refused(timed_row("b-2", 1.0), "no such precision")};
  const std::vector<GroupScore> sources = scores_by(outcomes, Feature::Source);
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_NEAR(sources[0].score.mape, 0.15, 1e-12);
  EXPECT_EQ(sources[1].score.rows, 0U);
  EXPECT_EQ(sources[1].refused, 2U);
  ASSERT_EQ(refusals(outcomes).size(), 1U);
  EXPECT_EQ(refusals(outcomes)[0].ids, (std::vector<std::string>{"b-1", "b-2"}));
  EXPECT_EQ(worst_first(outcomes).front()->row.id, "a-2");
}

// Is a row with measured memory and no step time neither an error nor refused?
TEST(Score, ARowWithoutAStepTimeIsPredictedAndNotScored) {
  Outcome memory = predicted(timed_row("a-2", 0.0), 8.0);
  memory.row.peak_memory_gib = 10.0;
  memory.peak_memory_gib = 11.0;
  const std::vector<Outcome> outcomes = {predicted(timed_row("a-1", 10.0), 11.0), memory};
  const GroupScore all = score_of_all(outcomes);
  EXPECT_EQ(all.score.rows, 1U);
  EXPECT_EQ(all.refused, 0U);
  EXPECT_NEAR(all.score.mape, 0.1, 1e-12);
  EXPECT_EQ(worst_first(outcomes).size(), 1U);
  EXPECT_NEAR(outcomes[1].memory_error().value(), 0.1, 1e-12);
}

// Does the report hold scores, the worst rows and reasons?
TEST(Report, NamesScoresWorstRowsAndReasons) {
  const std::vector<Outcome> outcomes = {predicted(timed_row("a-1", 10.0), 11.0),
                                         refused(timed_row("b-1", 1.0), "no such precision")};
  const std::string text = validation_text(outcomes, {});
  EXPECT_NE(text.find("2 measured runs: 1 predicted, 1 not"), std::string::npos) << text;
  EXPECT_NE(text.find("compute: gemm 75 %, bubble 25 %"), std::string::npos) << text;
  EXPECT_NE(text.find("no such precision (b-1)"), std::string::npos) << text;
  EXPECT_NE(validation_markdown(outcomes, {}).find("| a-1 | 10 s | 11 s | +10.0 % |"),
            std::string::npos)
      << validation_markdown(outcomes, {});
  EXPECT_EQ(validation_json(outcomes, {})["rows"][0]["error"].get<double>(), outcomes[0].error());
  EXPECT_NE(validation_csv(outcomes).find("b-1,b,H100,tp dp,unknown,9-64 GPUs"), std::string::npos)
      << validation_csv(outcomes);
  EXPECT_NE(scatter_svg(outcomes).find("<title>a-1: +10.0 %</title>"), std::string::npos);
}

FitRow fit_row(const std::string& source, double error, std::vector<double> slopes) {
  return {.source = source, .residual = std::log1p(error), .slopes = std::move(slopes)};
}

// Does the fit undo a common error?
TEST(ConstantFit, UndoesACommonError) {
  const std::vector<FitRow> rows = {fit_row("a", -0.1, {1.0}), fit_row("b", -0.1, {1.0})};
  EXPECT_NEAR(fit_factors(rows, {"c"}, 0.05)[0], 1.0 / 0.9, 1e-9);
}

// Do slopes separate two constants?
TEST(ConstantFit, TellsTwoConstantsApartBySlopes) {
  std::vector<FitRow> rows;
  for (int i = 0; i < 6; ++i) {
    const double share = 0.1 + 0.15 * i;  // share of the first constant in the row's time
    const double residual = -(share * std::log(1.2) + (1.0 - share) * std::log(0.9));
    rows.push_back(
        {.source = i % 2 == 0 ? "a" : "b", .residual = residual, .slopes = {share, 1.0 - share}});
  }
  const std::vector<double> factors = fit_factors(rows, {"c", "d"}, 0.05);
  EXPECT_NEAR(factors[0], 1.2, 1e-9);
  EXPECT_NEAR(factors[1], 0.9, 1e-9);
}

// Does one wrong row hardly change the fit?
TEST(ConstantFit, OneWrongRowHardlyPulls) {
  std::vector<FitRow> rows;
  for (int i = 0; i < 9; ++i) rows.push_back(fit_row("a", 0.0, {1.0}));
  rows.push_back(fit_row("a", 1.0, {1.0}));
  EXPECT_NEAR(fit_factors(rows, {"c"}, 0.01)[0], 1.0, 0.01) << "the mean would say 0.93";
}

// Do levels leave only the differences among their rows? The levels of two machines are off by
// different shares, and both have one slope: once the levels are removed, only the slope remains.
// A row that is alone in its level gives no information.
TEST(ConstantFit, LevelsLeaveOnlyWhatDiffersAmongTheirRows) {
  std::vector<FitRow> rows;
  std::vector<std::string> levels;
  for (const double level : {-0.2, 0.3}) {
    for (const double slope : {0.1, 0.2, 0.4}) {
      rows.push_back({.source = level < 0.0 ? "a" : "b",
                      .residual = level - slope * std::log(1.5),
                      .slopes = {slope}});
      levels.push_back(rows.back().source);
    }
  }
  rows.push_back(fit_row("c", 0.7, {0.9}));
  levels.push_back("alone");
  const std::vector<FitRow> told = without_levels(rows, levels);
  EXPECT_EQ(told.size(), 6U);
  EXPECT_NEAR(fit_factors(told, {"c"}, 0.05)[0], 1.5, 1e-9);
  EXPECT_GT(std::abs(fit_factors(rows, {"c"}, 0.05)[0] - 1.5), 0.1) << "levels are in the way";
}

// Are constants refused that the rows cannot determine?
TEST(ConstantFit, RefusesWhatTheRowsCannotTell) {
  const std::vector<FitRow> same = {fit_row("a", 0.1, {0.5, 0.5}), fit_row("b", 0.2, {0.7, 0.7})};
  EXPECT_THROW((void)fit_factors(same, {"c", "d"}, 0.05), InputError);
  const std::vector<FitRow> idle = {fit_row("a", 0.1, {0.0}), fit_row("b", 0.2, {0.001})};
  EXPECT_THROW((void)fit_factors(idle, {"c"}, 0.05), InputError);
}

// Does the fit leave each source out once?
TEST(ConstantFit, LeavesEachSourceOutOnce) {
  const std::vector<FitRow> rows = {fit_row("a", -0.1, {1.0}), fit_row("a", -0.1, {1.0}),
                                    fit_row("b", 0.25, {1.0}), fit_row("b", 0.25, {1.0})};
  const ConstantFit fit = fit_constants(rows, {"c"}, 0.05);
  ASSERT_EQ(fit.sources.size(), 2U);
  EXPECT_NEAR(fit.sources[0].factors[0], 0.8, 1e-9) << "from b alone";
  EXPECT_NEAR(fit.sources[0].without, 1.0 - 0.9 * 0.8, 1e-9);
  EXPECT_NEAR(fit.sources[0].before, 0.1, 1e-9);
  EXPECT_NEAR(fit.sources[1].factors[0], 1.0 / 0.9, 1e-9) << "from a alone";
  EXPECT_GT(fit.spread[0], 0.1) << "sources that disagree make a constant uncertain";
}

std::filesystem::path dataset_file(const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(file) << text;
  return file;
}

// Do collective rows have the price of NCCL's choice? The rows are two points of the H100 table,
// one of them measured three times.
TEST(CollectiveRows, ArePricedAsNcclChooses) {
  const auto file = dataset_file("h100_sxm.csv",
                                 "op,dtype,gpus,nccl_version,size_bytes,time_us,busbw_GBps\n"
                                 "all_reduce,half,8,2.29,268435456,1000,0\n"
                                 "alltoall,half,8,2.29,8388608,44,0\n"
                                 "alltoall,half,8,2.29,8388608,48,0\n"
                                 "alltoall,half,8,2.29,8388608,45,0\n");
  ASSERT_TRUE(is_collective_dataset(file));
  const std::vector<Outcome> outcomes = validate_collectives(file);
  ASSERT_EQ(outcomes.size(), 2U);
  const Outcome& reduced = outcomes[0];
  EXPECT_EQ(reduced.row.id, "h100_sxm-all_reduce-1x8-2.29-268435456");
  EXPECT_EQ(feature_of(reduced.row, Feature::Operation), "all_reduce");
  EXPECT_EQ(feature_of(reduced.row, Feature::Size), "> 64 MiB");
  EXPECT_EQ(feature_of(reduced.row, Feature::Gpu), "h100");
  EXPECT_EQ(feature_of(reduced.row, Feature::Scale), "1-8 GPUs");
  EXPECT_LT(std::abs(reduced.error()), 0.2);
  ASSERT_EQ(reduced.parts.size(), 2U);
  EXPECT_NEAR(reduced.parts[0].seconds + reduced.parts[1].seconds, reduced.predicted_s,
              1e-12 * reduced.predicted_s);
  EXPECT_EQ(reduced.parts[1].name, "latency of NVLS/Simple, 16 channels");
  EXPECT_DOUBLE_EQ(outcomes[1].row.step_time_s, 45e-6);
  EXPECT_LT(std::abs(outcomes[1].error()), 0.3);
}

// Are rows of a machine without a description refused?
TEST(CollectiveRows, OfAMachineNobodyDescribedAreRefused) {
  const auto file = dataset_file("my_log.json", R"({"n_ranks": 8, "rows": [{"op": "all_reduce",
      "size_bytes": 8, "time_us": 12.0}]})");
  ASSERT_TRUE(is_collective_dataset(file));
  try {
    (void)validate_collectives(file);
    FAIL() << "it was read";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(".machine.json"), std::string::npos);
  }
  EXPECT_FALSE(is_collective_dataset(dataset_file("runs.json", "[]")));
}

}  // namespace
}  // namespace trainyard
