// Does a pattern in the errors have its name, and does chance have none?
#include "tools/studies/validate/patterns.hpp"

#include <gtest/gtest.h>

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>

namespace trainyard {
namespace {

// 60 rows with errors of about 1 %, each a source of its own, on two GPUs.
std::vector<Outcome> rows_of_chance() {
  boost::random::mt19937 random(3);
  boost::random::normal_distribution<double> normal(0.0, 0.01);
  std::vector<Outcome> rows;
  for (int row = 0; row < 60; ++row) {
    Outcome& outcome = rows.emplace_back();
    outcome.row = {.id = std::to_string(row),
                   .source = std::to_string(row),
                   .description = {{"hardware", {{"gpu", row % 2 == 0 ? "H100" : "A100"}}}},
                   .step_time_s = 1.0};
    outcome.predicted_s = std::exp(normal(random));
    outcome.parts = {{"host", outcome.predicted_s * (0.5 + 0.005 * row)}};
  }
  return rows;
}

// Do errors of chance have no strong pattern, although each row has a source of its own?
TEST(Patterns, FindsNoneInChance) {
  for (const Pattern& pattern : patterns(rows_of_chance()))
    EXPECT_LT(pattern.explained, 0.1) << pattern.name;
}

// Is the GPU that is predicted 5 % too slow the strongest pattern?
TEST(Patterns, NamesTheFeatureWhoseGroupIsOff) {
  std::vector<Outcome> rows = rows_of_chance();
  for (Outcome& outcome : rows)
    if (feature_of(outcome.row, Feature::Gpu) == "A100") outcome.predicted_s *= 1.05;
  const std::vector<Pattern> found = patterns(rows);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().name, "gpu");
  EXPECT_GT(found.front().explained, 0.8);
  EXPECT_EQ(found.front().rows, 30U);
  EXPECT_NEAR(std::abs(found.front().error), 0.5 * std::log(1.05), 0.005);
}

// Is the part over whose share the error grows the strongest pattern?
TEST(Patterns, NamesThePartOverWhichTheErrorGrows) {
  std::vector<Outcome> rows = rows_of_chance();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double factor = 1.0 + 0.002 * static_cast<double>(row);
    rows[row].predicted_s *= factor;
    for (TimePart& part : rows[row].parts) part.seconds *= factor;
  }
  const std::vector<Pattern> found = patterns(rows);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().name, "share of host");
  EXPECT_NEAR(found.front().error, std::log(1.118), 0.02);
}

// Are few rows left alone?
TEST(Patterns, LeavesFewRowsAlone) {
  std::vector<Outcome> rows = rows_of_chance();
  rows.resize(10);
  EXPECT_TRUE(patterns(rows).empty());
}

}  // namespace
}  // namespace trainyard
