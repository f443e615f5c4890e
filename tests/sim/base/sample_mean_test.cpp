// The interval of a mean, against numbers from a table of Student's t.
#include "sim/base/sample_mean.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Does the interval follow Student's t? The sample 1 .. 5 has variance 10/4, and t(0.975, 4) is
// 2.776445.
TEST(SampleMean, FollowsStudentsT) {
  const SampleMean sample = sample_mean({1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(sample.mean, 3.0);
  EXPECT_NEAR(sample.deviation, std::sqrt(2.5), 1e-12);
  EXPECT_NEAR(sample.half_width, 2.776445 * std::sqrt(2.5 / 5.0), 1e-6);
  EXPECT_DOUBLE_EQ(sample.low(), 3.0 - sample.half_width);
  EXPECT_DOUBLE_EQ(sample.high(), 3.0 + sample.half_width);
}

// Has a single value no interval, and have equal values one of width 0?
TEST(SampleMean, OneValueHasNoInterval) {
  EXPECT_TRUE(std::isinf(sample_mean({4}).half_width));
  EXPECT_EQ(sample_mean({4, 4, 4}).half_width, 0.0);
}

}  // namespace
}  // namespace trainyard
