// The median of values in any order and number.
#include "sim/base/median.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Is the median the middle value, or the mean of the middle two?
TEST(Median, IsTheMiddleValueOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({7.0}), 7.0);
  EXPECT_EQ(median({4.0, 1.0, 3.0}), 3.0);
  EXPECT_EQ(median({4.0, 1.0, 3.0, 2.0}), 2.5);
  EXPECT_EQ(median({2.0, 2.0, 100.0, -100.0}), 2.0);
}

}  // namespace
}  // namespace trainyard
