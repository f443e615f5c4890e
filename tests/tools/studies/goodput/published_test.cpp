// Published goodput and ETTR are predicted from their published set-ups. The rows in tests/measured
// are a part of the data set that the study reads; the whole is used where it lies beside the tree.
#include "tools/studies/goodput/published.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/reliability/checkpoint_interval.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const fs::path kTree = TRAINYARD_SOURCE_DIRECTORY;

bool every(const std::string&) { return true; }

const PublishedGoodput& row_of(const GoodputRows& rows, const std::string& id) {
  const auto row = std::find_if(rows.rows.begin(), rows.rows.end(),
                                [&](const PublishedGoodput& one) { return one.id == id; });
  if (row == rows.rows.end()) throw std::out_of_range(id);
  return *row;
}

// Kokolis et al. print their first-order formula. It is within 2 points of the renewal equation, to
// which the sampled runs agree, where few failures come in an interval.
TEST(PublishedGoodput, OfKokolisIsTheRenewalEquation) {
  const GoodputRows rows = validate_goodput(kTree / "tests/measured/goodput.json", every);
  // 2048 nodes, 6.5 failures per 1000 node-days: M = 86 400/13.312 = 6490.4 s.
  const double exact = reliability::efficiency(
      {.interval = 300, .write = 0, .restart = 300, .mtbf = 86400 / (2048 * 6.5e-3)});
  const PublishedGoodput& row = row_of(rows, "kokolis-16k-5min");
  EXPECT_NEAR(row.predicted.mean, exact, 2 * row.predicted.half_width);
  EXPECT_NEAR(row.error(), 0.0, 0.02);
  EXPECT_EQ(row.supposed, "");
  EXPECT_EQ(row_of(rows, "kokolis-100k").supposed, "checkpoints take no time");
}

// The errors as they are. BLOOM and ByteRobust come out too high, because the presets hold no time
// for what their sources do not time: outages that waited for people, and slow restarts.
TEST(PublishedGoodput, HasTheseErrors) {
  const GoodputRows rows = validate_goodput(kTree / "tests/measured/goodput.json", every);
  ASSERT_EQ(rows.rows.size(), 7U);
  ASSERT_EQ(rows.left_out.size(), 1U);
  EXPECT_EQ(rows.left_out[0].first, "opt-175b");
  EXPECT_EQ(row_of(rows, "llama3-405b-54d").error(), 0.0);  // above its bound
  EXPECT_LT(std::abs(row_of(rows, "kokolis-12k-rate").error()), 0.02);
  EXPECT_LT(std::abs(row_of(rows, "kokolis-12k-write").error()), 0.03);
  EXPECT_LT(std::abs(row_of(rows, "kokolis-100k").error()), 0.05);
  EXPECT_LT(std::abs(row_of(rows, "byterobust-dense").error()), 0.03);
  EXPECT_LT(std::abs(row_of(rows, "bloom-176b").error()), 0.04);
}

const EnergyRow& energy_of(const GoodputRows& rows, const std::string& id) {
  const auto row = std::ranges::find(rows.energy, id, &EnergyRow::id);
  if (row == rows.energy.end()) throw std::out_of_range(id);
  return *row;
}

// BLOOM's card multiplies GPU-hours by 400 W: 1 082 990 h x 0.4 kW = 433.196 MWh, to the digit.
// GPT-3 is predicted with constants that no language model calibrates; its power is 4 % too low.
TEST(PublishedGoodput, EnergyIsThatOfTheCardsAndNearThatOfTheLogs) {
  const GoodputRows rows = validate_goodput(kTree / "tests/measured/goodput.json", every);
  ASSERT_GE(rows.energy.size(), 5U);
  const EnergyRow& bloom = energy_of(rows, "bloom-energy");
  EXPECT_EQ(bloom.purpose, "bookkeeping");
  EXPECT_NEAR(bloom.predicted, 433.196, 1e-9);
  EXPECT_EQ(energy_of(rows, "mlperf40-bert-1").purpose, "calibrates");
  int judged = 0;
  for (const EnergyRow& row : rows.energy) {
    if (row.id != "mlperf40-gpt3-64") continue;
    EXPECT_EQ(row.purpose, "judges");
    EXPECT_LT(std::abs(row.error), 0.06) << row.figure;
    EXPECT_NEAR(row.error, row.predicted / row.published - 1, 1e-12);
    ++judged;
  }
  EXPECT_EQ(judged, 2);
}

TEST(PublishedGoodput, OfTheWholeDataSetIsPredictedWhereTheSetUpSuffices) {
  const fs::path file = kTree / "../shared/measured/goodput/goodput.json";
  if (!fs::exists(file))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: the whole data set is not at " << file;
  const GoodputRows rows = validate_goodput(file, every);
  EXPECT_GE(rows.rows.size(), 7U);
  EXPECT_GT(rows.left_out.size(), 100U);
}

}  // namespace
}  // namespace trainyard
