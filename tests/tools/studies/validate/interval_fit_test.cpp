// Do fitted intervals have the deviations that made the errors, and contain 90 % of other runs?
#include "tools/studies/validate/interval_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_real_distribution.hpp>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/validate/interval_coverage.hpp"
#include "tools/studies/validate/report.hpp"

namespace trainyard {
namespace {

constexpr auto at(Uncertain kind) { return static_cast<std::size_t>(kind); }

// Runs whose GEMMs and host are off by 10 % and 30 %: the share of GEMMs is drawn, the rest is the
// host's. Each row is a source of its own.
std::vector<Outcome> drawn_runs(std::size_t count, double shared) {
  boost::random::mt19937 random(7);
  boost::random::uniform_real_distribution<double> share(0.0, 1.0);
  boost::random::normal_distribution<double> normal(0.0, 1.0);
  std::vector<Outcome> runs;
  for (std::size_t run = 0; run < count; ++run) {
    Outcome& outcome = runs.emplace_back();
    outcome.row = {.id = std::to_string(run),
                   .source = std::to_string(run / 2),
                   .description = {{"group", std::to_string(run)}},
                   .step_time_s = 1.0};
    const double gemms = share(random);
    outcome.uncertain[at(Uncertain::Gemms8)] = gemms;
    outcome.uncertain[at(Uncertain::Host)] = 1.0 - gemms;
    // The two runs of a source have `shared` of their errors' variance in common.
    static double common_gemms, common_host;
    if (run % 2 == 0) {
      common_gemms = normal(random);
      common_host = normal(random);
    }
    const auto error = [&](double common) {
      return std::sqrt(shared) * common + std::sqrt(1.0 - shared) * normal(random);
    };
    const double log_error =
        gemms * 0.1 * error(common_gemms) + (1.0 - gemms) * 0.3 * error(common_host);
    outcome.predicted_s = std::exp(-log_error);
    outcome.scenario = {{"framework", "nemo"}};
  }
  return runs;
}

// Does the fit find the deviations of the parts that drew the errors?
TEST(IntervalFit, FindsTheDeviationsThatDrewTheErrors) {
  const std::vector<Outcome> outcomes = drawn_runs(2000, 0.0);
  const Uncertainty table = fit_uncertainty(errors_of_runs(outcomes, outcomes, {}));
  EXPECT_NEAR(table.deviation[at(Uncertain::Gemms8)], 0.1, 0.01);
  EXPECT_NEAR(table.deviation[at(Uncertain::Host)], 0.3, 0.02);
  EXPECT_EQ(table.runs, 2000U);
  EXPECT_EQ(table.sources, 1000U);
  EXPECT_THAT(table.frameworks, ::testing::ElementsAre("nemo"));
}

// Does the correlation of two runs of one source follow from their common errors?
TEST(IntervalFit, FindsTheCorrelationOfRunsOfOneSource) {
  for (const double shared : {0.0, 0.5, 0.9}) {
    const std::vector<Outcome> outcomes = drawn_runs(2000, shared);
    const Uncertainty table = fit_uncertainty(errors_of_runs(outcomes, outcomes, {}));
    EXPECT_NEAR(table.correlation, shared, 0.1) << shared;
  }
}

// Do intervals contain 90 % of runs that did not fit them?
TEST(IntervalFit, ContainsNineOfTenOtherRuns) {
  std::vector<Outcome> outcomes = drawn_runs(1000, 0.0);
  for (std::size_t run = 0; run < outcomes.size(); ++run)
    outcomes[run].row.description["hardware"] = {{"num_gpus", run < 500 ? 8 : 64}};
  const std::vector<Coverage> rows =
      coverage(leave_out_classes(errors_of_runs(outcomes, outcomes, {}), Feature::Scale));
  ASSERT_EQ(rows.size(), 3U);  // all, and two scales
  for (const Coverage& row : rows) {
    EXPECT_NEAR(row.inside, 0.9, 0.03) << row.group;
    EXPECT_GT(row.half_width, 0.1) << row.group;
  }
  EXPECT_EQ(rows[0].runs, 1000U);
  EXPECT_EQ(rows[1].runs, 500U);
}

// Are runs whose framework is new fitted with and without its constants, and judged once?
TEST(IntervalFit, FitsTheRunsOfANewFrameworkTwiceAndJudgesThemOnce) {
  std::vector<Outcome> shipped = drawn_runs(200, 0.0);
  std::vector<Outcome> without = shipped;
  without[3].uncertain[at(Uncertain::NewFramework)] = 1.0;
  without[4].reason = "refused";
  const std::vector<ErrorOfRun> runs = errors_of_runs(shipped, without, {});
  EXPECT_EQ(runs.size(), 200U);  // one refused, one twice
  EXPECT_EQ(std::ranges::count(runs, false, &ErrorOfRun::judged), 1);
}

// Does a validation count the measured steps within their intervals, and only those that have one?
TEST(IntervalFit, AValidationCountsTheStepsWithinTheirIntervals) {
  std::vector<Outcome> outcomes = drawn_runs(3, 0.0);  // each measured step takes 1 s
  EXPECT_THAT(validation_text(outcomes, {}), ::testing::Not(::testing::HasSubstr("intervals")));
  outcomes[0].interval = PredictedInterval{.low = 0.9, .high = 1.1};
  outcomes[1].interval = PredictedInterval{.low = 1.1, .high = 1.3};
  EXPECT_THAT(validation_text(outcomes, {}),
              ::testing::HasSubstr("1 of 2 measured steps (50.0 %) are within the intervals"));
  const auto rows = validation_json(outcomes, {}).at("rows");
  EXPECT_EQ(rows.at(0).at("interval_s"), parse_unchecked_json("[0.9, 1.1]"));
  EXPECT_FALSE(rows.at(2).contains("interval_s"));
}

// Are few runs refused?
TEST(IntervalFit, RefusesFewRuns) {
  const std::vector<Outcome> outcomes = drawn_runs(20, 0.0);
  EXPECT_THROW(static_cast<void>(fit_uncertainty(errors_of_runs(outcomes, outcomes, {}))),
               InputError);
}

}  // namespace
}  // namespace trainyard
