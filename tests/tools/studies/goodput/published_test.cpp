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
  EXPECT_LT(std::abs(row_of(rows, "bloom-176b").error()), 0.07);
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
