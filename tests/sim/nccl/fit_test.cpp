// The fit of constants to synthetic numbers, and the table of errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "sim/base/files.hpp"
#include "sim/nccl/fit/fit_machine.hpp"
#include "sim/nccl/fit/least_squares.hpp"

namespace trainyard::nccl::fit {
namespace {

// Are the constants behind numbers with outliers found? y = a + x / b, with one row in ten wrong by
// half.
TEST(FitPositive, FindsTheConstantsBehindNumbersWithOutliers) {
  constexpr double kLatency = 7.0;
  constexpr double kRate = 220.0;
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 40; ++i) {
    const double x = std::exp2(0.5 * i);
    const double wrong = i % 10 == 3 ? 1.5 : 1.0;
    points.emplace_back(x, wrong * (kLatency + x / kRate));
  }
  const Residuals residuals = [&](const std::vector<double>& p) {
    std::vector<double> made;
    for (const auto& [x, y] : points) made.push_back(std::log((p[0] + x / p[1]) / y));
    return made;
  };
  const std::vector<double> found = fit_positive({1.0, 50.0}, residuals, {.scale = 0.01});
  EXPECT_NEAR(found[0], kLatency, 0.02 * kLatency);
  EXPECT_NEAR(found[1], kRate, 0.02 * kRate);
}

// Does a parameter without influence on any residual stay unchanged?
TEST(FitPositive, KeepsParametersWithoutInfluence) {
  const Residuals residuals = [](const std::vector<double>& p) {
    return std::vector<double>{std::log(p[0] / 3.0), std::log(p[0] / 3.0)};
  };
  const std::vector<double> found = fit_positive({1.0, 42.0}, residuals, {});
  EXPECT_NEAR(found[0], 3.0, 1e-4);
  EXPECT_DOUBLE_EQ(found[1], 42.0);
}

// Does the table of errors add up by size band?
TEST(ErrorTable, AddsUpByBand) {
  ErrorTable table;
  table.add({"H100 x 8", "all_reduce", 65536.0}, 1.1);
  table.add({"H100 x 8", "all_reduce", 1024.0}, 0.7);
  table.add({"H100 x 8", "all_reduce", 1048576.0}, 1.05);
  EXPECT_EQ(table.all().rows, 3U);
  EXPECT_NEAR(table.all().mean_absolute(), 0.15, 1e-12);
  EXPECT_NEAR(table.all().bias(), -0.05, 1e-12);
  EXPECT_NEAR(table.all().worst, -0.3, 1e-12);
  EXPECT_EQ(table.from_one_mebibyte().rows, 1U);
  EXPECT_THAT(table.to_markdown(),
              ::testing::HasSubstr("| H100 x 8 | all_reduce | 20.0 % (bias -10.0, worst -30, n=2) "
                                   "| - | 5.0 % (bias +5.0, worst +5, n=1) | - |"));
}

// Do rows that were read off a plot have the time of their bus bandwidth? 2 x 7/8 of 8 MB at 100
// GB/s are 140 us. Nodes with NVLink between them are one node, and in-place rows are left out.
TEST(ReadPoints, RowsOfAPlotHaveTheTimeOfTheirBandwidth) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "plot.json";
  write_file(file, R"({"n_ranks": 8, "rows": [
    {"op": "all_reduce", "size_bytes": 8000000, "time_us": null, "busbw_GBps": 100.0},
    {"op": "all_gather", "size_bytes": 8000000, "time_us": 50.0, "mnnvl": true},
    {"op": "all_gather", "size_bytes": 8000000, "time_us": 50.0, "in_place": true},
    {"op": "moe_dispatch", "size_bytes": null, "time_us": null}]})");
  const std::vector<MeasuredPoint> points = read_points(file);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_DOUBLE_EQ(points[0].time_us, 140.0);
  EXPECT_EQ(points[0].nodes, 0U);
  EXPECT_DOUBLE_EQ(points[1].time_us, 50.0);
  EXPECT_EQ(points[1].nodes, 1U);
}

// Are the limits of the size bands those of their names?
TEST(ErrorTable, BandsHaveTheLimitsOfTheirNames) {
  EXPECT_EQ(band_of(65536.0), 0U);
  EXPECT_EQ(band_of(65537.0), 1U);
  EXPECT_EQ(band_of(1048575.0), 1U);
  EXPECT_EQ(band_of(1048576.0), 2U);
  EXPECT_EQ(band_of(67108864.0), 2U);
  EXPECT_EQ(band_of(67108865.0), 3U);
}

}  // namespace
}  // namespace trainyard::nccl::fit
