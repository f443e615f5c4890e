// The piecewise fit of times: exact on exact lines, one range if nothing changes, and thresholds at
// their true sizes.
#include "sim/collectives/profile/time_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/collectives/profile/measured.hpp"
#include "tests/agreement.hpp"

namespace trainyard {
namespace {

template <class Time>
std::vector<SizeTime> doubled(std::int64_t from, std::int64_t last, Time time_s) {
  std::vector<SizeTime> points;
  for (std::int64_t bytes = from; bytes <= last; bytes *= 2)
    points.push_back({.bytes = bytes, .time_s = time_s(static_cast<double>(bytes))});
  return points;
}

void expect_near(double value, double expected) {
  EXPECT_NEAR(value, expected, kAgreement * std::abs(expected));
}

// Is a single line one range with its two constants?
TEST(TimeFit, OneLineIsOneRangeWithItsTwoNumbers) {
  const TimeFit fit =
      fit_times(doubled(8, 1 << 30, [](double bytes) { return 7e-6 + bytes / 50e9; }));
  ASSERT_EQ(fit.segments.size(), 1U);
  expect_near(fit.segments[0].latency_s, 7e-6);
  expect_near(fit.segments[0].seconds_per_byte, 1.0 / 50e9);
  EXPECT_LT(fit.error_worst, kAgreement);
}

// Are stalls left out? Two calls that took many times as long as larger ones must not bend the
// line.
TEST(TimeFit, LeavesStallsOut) {
  std::vector<SizeTime> points =
      doubled(8, 1 << 30, [](double bytes) { return 7e-6 + bytes / 50e9; });
  points[0].time_s *= 3.0;
  points[5].time_s *= 4.0;
  const TimeFit fit = fit_times(points);
  EXPECT_EQ(fit.stalls, 2U);
  ASSERT_EQ(fit.segments.size(), 1U);
  expect_near(fit.segments[0].latency_s, 7e-6);
  expect_near(fit.segments[0].seconds_per_byte, 1.0 / 50e9);
  EXPECT_EQ(fit.segments[0].from_bytes, 16);
  EXPECT_NEAR(fit.error_worst, 0.75, 1e-3);
}

// Is the threshold between two protocols found? The example of the header: 10 us + S / 1 GB/s up to
// 64 KiB, 30 us + S / 10 GB/s above.
TEST(TimeFit, FindsTheThresholdBetweenTwoProtocols) {
  const auto points = doubled(1024, 1 << 25, [](double bytes) {
    return bytes <= 65536.0 ? 10e-6 + bytes / 1e9 : 30e-6 + bytes / 10e9;
  });
  ASSERT_EQ(points.size(), 16U);
  const TimeFit fit = fit_times(points);
  ASSERT_EQ(fit.segments.size(), 2U);
  expect_near(fit.segments[0].latency_s, 10e-6);
  expect_near(fit.segments[0].seconds_per_byte, 1e-9);
  expect_near(fit.segments[1].latency_s, 30e-6);
  expect_near(fit.segments[1].seconds_per_byte, 1e-10);
  EXPECT_EQ(fit.segments[0].to_bytes, 65536);
  EXPECT_EQ(fit.segments[1].from_bytes, 131072);
  // The lines intersect at 20 us / 0.9 ns = 22 222 bytes, below the last size of the first range.
  expect_near(fit.segments[1].threshold_bytes, std::sqrt(65536.0 * 131072.0));
  EXPECT_EQ(&fit.segment(92000.0), &fit.segments[0]);
  EXPECT_EQ(&fit.segment(93000.0), &fit.segments[1]);
}

// Is a threshold at the intersection of the lines?
TEST(TimeFit, AThresholdIsWhereTheLinesMeet) {
  // 4 us + S / 1 GB/s and 14 us + S / 2 GB/s intersect at 20 000 bytes, between 16 and 32 KiB.
  const TimeFit fit = fit_times(doubled(1024, 1 << 22, [](double bytes) {
    return std::min(4e-6 + bytes / 1e9, 14e-6 + bytes / 2e9);
  }));
  ASSERT_EQ(fit.segments.size(), 2U);
  expect_near(fit.segments[1].threshold_bytes, 20000.0);
}

// Does the last size of a range still belong to it where the lines meet at this very size? 8 s up
// to 4 bytes and 2 s per byte from 8 bytes on meet at 4 bytes, which is not between 4 and 8. All
// numbers are powers of two, so that the lines are exact.
TEST(TimeFit, AThresholdIsBeyondTheLastSizeOfTheRange) {
  const TimeFit fit = fit_times(
      std::vector<SizeTime>{{1, 8.0}, {2, 8.0}, {4, 8.0}, {8, 16.0}, {16, 32.0}, {32, 64.0}});
  ASSERT_EQ(fit.segments.size(), 2U);
  EXPECT_EQ(fit.segments[0].latency_s, 8.0);
  EXPECT_EQ(fit.segments[0].seconds_per_byte, 0.0);
  EXPECT_EQ(fit.segments[1].latency_s, 0.0);
  EXPECT_EQ(fit.segments[1].seconds_per_byte, 2.0);
  expect_near(fit.segments[1].threshold_bytes, std::sqrt(4.0 * 8.0));
}

// Does noise create no ranges? Noise of 1 % is not a protocol change.
TEST(TimeFit, NoiseMakesNoRanges) {
  double sign = 1.0;
  const TimeFit fit = fit_times(doubled(8, 1 << 30, [&](double bytes) {
    sign = -sign;
    return (20e-6 + bytes / 100e9) * (1.0 + 0.01 * sign);
  }));
  EXPECT_EQ(fit.segments.size(), 1U);
  EXPECT_NEAR(fit.segments[0].latency_s, 20e-6, 0.02 * 20e-6);
  EXPECT_NEAR(1e-9 / fit.segments[0].seconds_per_byte, 100.0, 2.0);
  EXPECT_NEAR(fit.error, 0.01, 0.002);
}

// Are latency and time per byte never negative?
TEST(TimeFit, LatencyAndTimePerByteAreNeverNegative) {
  const TimeFit falling = fit_times(std::vector<SizeTime>{{8, 12e-6}, {16, 11e-6}, {32, 10e-6}});
  EXPECT_EQ(falling.segments[0].seconds_per_byte, 0.0);
  EXPECT_GT(falling.segments[0].latency_s, 9e-6);
  const TimeFit steep = fit_times(std::vector<SizeTime>{{1000, 1e-6}, {2000, 3e-6}, {4000, 9e-6}});
  EXPECT_EQ(steep.segments[0].latency_s, 0.0);
  EXPECT_GT(steep.segments[0].seconds_per_byte, 0.0);
}

// Is a single size its own latency?
TEST(TimeFit, OneSizeIsItsOwnLatency) {
  const TimeFit fit = fit_times(std::vector<SizeTime>{{4096, 5e-6}});
  ASSERT_EQ(fit.segments.size(), 1U);
  expect_near(fit.segments[0].time_s(4096.0), 5e-6);
}

// Do measured sizes take their measured times? A curve returns the measured values, and scales the
// fit between them.
TEST(MeasuredCurve, MeasuredSizesTakeTheirMeasuredTimes) {
  MeasuredRun run{.op = CollectiveOp::AllReduce, .ranks = 8, .nodes = 1};
  double sign = 1.0;
  for (std::int64_t bytes = 1024; bytes <= (1 << 28); bytes *= 2) {
    sign = -sign;
    run.rows.push_back(
        {.bytes = bytes,
         .dtype = "float",
         .time_us = (10.0 + static_cast<double>(bytes) / 1e5) * (1.0 + 0.02 * sign)});
  }
  const std::vector<MeasuredCurve> curves = curves_of(std::vector{run});
  ASSERT_EQ(curves.size(), 1U);
  for (const RunRow& row : run.rows) {
    const CurveTime time = curves[0].at(static_cast<double>(row.bytes));
    expect_near(time.latency_s + time.transfer_s, row.time_us * 1e-6);
    EXPECT_TRUE(time.measured_range);
  }
  const CurveTime beyond = curves[0].at(double{1 << 29});
  EXPECT_FALSE(beyond.measured_range);
  EXPECT_NEAR(beyond.latency_s + beyond.transfer_s, 10e-6 + (1 << 29) / 1e11, 0.05 * 5.4e-3);
  EXPECT_FALSE(curves[0].at(8.0).measured_range);
}

// Are several times of one size their median?
TEST(MeasuredCurve, SeveralTimesOfOneSizeAreTheirMedian) {
  MeasuredRun run{.ranks = 8, .nodes = 1};
  for (const double time_us : {10.0, 90.0, 12.0})
    run.rows.push_back({.bytes = 1024, .dtype = "float", .time_us = time_us});
  const std::vector<MeasuredCurve> curves = curves_of(std::vector{run});
  ASSERT_EQ(curves.at(0).points.size(), 1U);
  expect_near(curves[0].points[0].time_s, 12e-6);
}

}  // namespace
}  // namespace trainyard
