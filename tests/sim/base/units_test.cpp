#include "sim/base/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/checked.hpp"

namespace trainyard {
namespace {

static_assert(Bytes{450e9} / BytesPerSecond{450e9} == Seconds{1.0});
static_assert(Flops{6.0} / FlopsPerSecond{3.0} == Seconds{2.0});
static_assert(BytesPerSecond{2.0} * Seconds{3.0} == Bytes{6.0});

TEST(Units, PrintFourDigitsInTheUnitThatReadsBest) {
  EXPECT_EQ(to_text(Seconds{13.75}), "13.75 s");
  EXPECT_EQ(to_text(Seconds{3.4e-6}), "3.4 us");
  EXPECT_EQ(to_text(Seconds{0.0}), "0 ns");
  EXPECT_EQ(to_text(Seconds{86400.0}), "86400 s");
  EXPECT_EQ(to_text(Bytes{80.0 * 0x1p30}), "80 GiB");
  EXPECT_EQ(to_text(BytesPerSecond{450e9}), "450 GB/s");
  EXPECT_EQ(to_text(FlopsPerSecond{312e12}), "312 TFLOP/s");
}

TEST(Units, RoundUpIntoTheNextUnit) {
  // 999.96 ms would print as "1000 ms".
  EXPECT_EQ(to_text(Seconds{0.99996}), "1 s");
}

TEST(Units, NeverPrintWhatIsNoNumber) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)to_text(Seconds{kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(Bytes{std::nan("")}), InternalError);
  EXPECT_THROW((void)to_text(BytesPerSecond{kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(FlopsPerSecond{-kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(Bytes{-2.0}), InternalError);
}

TEST(Checked, SumsThrowWhereTheyWouldWrap) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_sum(kMost - 1, 1), kMost);
  EXPECT_EQ(checked_sum(-1, 1), 0);
  EXPECT_THROW((void)checked_sum(kMost, 1), SizeOverflow);
  EXPECT_THROW((void)checked_sum(-kMost, -2), SizeOverflow);
}

}  // namespace
}  // namespace trainyard
