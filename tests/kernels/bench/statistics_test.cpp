#include "kernels/bench/statistics.hpp"

#include <gtest/gtest.h>

namespace trainyard::bench {
namespace {

TEST(Statistics, InterpolatesBetweenOrderedSamples) {
  const Spread spread = spread_of({3.0, 1.0, 2.0});
  EXPECT_DOUBLE_EQ(spread.median, 2.0);
  EXPECT_DOUBLE_EQ(spread.p10, 1.2);
  EXPECT_DOUBLE_EQ(spread.p90, 2.8);
}

TEST(Statistics, EvenCountsTakeTheMiddleOfTwo) {
  EXPECT_DOUBLE_EQ(spread_of({4.0, 1.0, 2.0, 3.0}).median, 2.5);
}

TEST(Statistics, OneSampleIsItsOwnSpread) {
  EXPECT_EQ(spread_of({7.0}), (Spread{.median = 7.0, .p10 = 7.0, .p90 = 7.0}));
}

TEST(Statistics, OneOutlierOfTwentyOneMovesNothing) {
  std::vector<double> samples(20, 5.0);
  samples.push_back(1e6);
  EXPECT_EQ(spread_of(samples), (Spread{.median = 5.0, .p10 = 5.0, .p90 = 5.0}));
}

}  // namespace
}  // namespace trainyard::bench
