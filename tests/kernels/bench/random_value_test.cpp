#include "kernels/bench/random_value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace trainyard::bench {
namespace {

struct Moments {
  double mean = 0.0;
  double variance = 0.0;
  double largest = 0.0;
};

Moments moments(std::uint64_t seed, std::int64_t count) {
  Moments m;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(random_value(seed, i));
    m.mean += value / static_cast<double>(count);
    m.variance += value * value / static_cast<double>(count);
    m.largest = std::max(m.largest, std::abs(value));
  }
  return m;
}

// Do random values have mean 0 and variance 4/3? For 200000 draws of deviation 1.155 the mean has a
// standard error of 0.0026, so 0.013 is five deviations.
TEST(RandomValue, IsCentredWithVarianceFourThirds) {
  const Moments m = moments(1, 200000);
  EXPECT_NEAR(m.mean, 0.0, 0.013);
  EXPECT_NEAR(m.variance, 4.0 / 3.0, 0.02);
  EXPECT_LT(m.largest, 4.0);
  EXPECT_GT(m.largest, 3.0);
}

// Does a random value depend on its seed and its index only?
TEST(RandomValue, DiffersBySeedAndPlaceAlone) {
  EXPECT_EQ(random_value(1, 42), -68921.0F * 0x1p-15F) << "by its definition";
  EXPECT_NE(random_value(1, 42), random_value(2, 42));
  EXPECT_NE(random_value(1, 42), random_value(1, 43));
}

// Are neighbouring values and different seeds uncorrelated?
TEST(RandomValue, NeighboursAndSeedsAreUncorrelated) {
  double along = 0.0;
  double across = 0.0;
  constexpr std::int64_t count = 200000;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(random_value(1, i));
    along += value * static_cast<double>(random_value(1, i + 1)) / count;
    across += value * static_cast<double>(random_value(2, i)) / count;
  }
  EXPECT_NEAR(along, 0.0, 0.015);
  EXPECT_NEAR(across, 0.0, 0.015);
}

// Does a permuted gather take each row exactly once?
TEST(GatheredRow, APermutationTakesEachRowOnce) {
  constexpr std::int64_t rows = 4096;
  std::set<std::int64_t> once;
  for (std::int64_t row = 0; row < rows; ++row) once.insert(gathered_row(true, row, rows));
  EXPECT_EQ(once.size(), 4096U);
  EXPECT_EQ(*once.rbegin(), rows - 1);
  std::set<std::int64_t> any;
  for (std::int64_t row = 0; row < rows; ++row) any.insert(gathered_row(false, row, rows));
  // With repetition, a share of 1 - 1/e of the rows is drawn.
  EXPECT_NEAR(static_cast<double>(any.size()) / rows, 0.632, 0.03);
}

}  // namespace
}  // namespace trainyard::bench
