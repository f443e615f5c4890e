// Do intervals of steps and of their ratios have the widths of their formulas?
#include "sim/report/interval.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace {

StepInterval interval_of(double step_s, std::vector<UncertainPart> parts) {
  return {.step_s = step_s, .parts = std::move(parts), .correlation = 0.9};
}

const UncertainPart kGemms{.name = "GEMMs", .cause = "h100", .deviation = 0.03};
const UncertainPart kHost{.name = "host", .cause = "nemo", .deviation = 0.04};

// Do deviations of parts add as squares? The numbers are those of the header.
TEST(StepInterval, AddsTheSquaresOfItsParts) {
  const StepInterval interval = interval_of(10.0, {kHost, kGemms});
  EXPECT_DOUBLE_EQ(interval.deviation(), 0.05);
  EXPECT_NEAR(interval.low_s(), 9.2105, 1e-4);
  EXPECT_NEAR(interval.high_s(), 10.8572, 1e-4);
  EXPECT_EQ(interval_text(interval), "9.21 to 10.9 s");
}

// Do parts with a name and a cause in common cancel in a ratio?
TEST(RatioInterval, CommonPartsCancel) {
  const StepInterval a = interval_of(10.0, {kHost, kGemms});
  const RatioInterval same = ratio_of(a, a);
  EXPECT_NEAR(same.high, std::exp(1.6448536 * std::sqrt(2.0 * 0.0025 * 0.1)), 1e-6);
  EXPECT_NEAR(same.low * same.high, 1.0, 1e-12);
  EXPECT_DOUBLE_EQ(same.below_one, 0.5);
  UncertainPart other_gpu = kGemms;
  other_gpu.cause = "a100_80gb";
  const RatioInterval other = ratio_of(interval_of(10.0, {kHost, other_gpu}), a);
  EXPECT_NEAR(std::log(other.high) / 1.6448536, std::sqrt(0.0016 * 0.2 + 0.0009 * 2.0), 1e-6);
}

// Is a quicker step surely quicker where nothing is uncertain, and probably where something is?
TEST(RatioInterval, HasTheProbabilityOfItsSide) {
  EXPECT_EQ(ratio_of(interval_of(9.0, {}), interval_of(10.0, {})).below_one, 1.0);
  EXPECT_EQ(ratio_of(interval_of(11.0, {}), interval_of(10.0, {})).below_one, 0.0);
  // Without a common part, 10 % are as many deviations as of a normal distribution.
  const RatioInterval ratio = ratio_of(interval_of(9.0, {kHost}), interval_of(10.0, {kGemms}));
  EXPECT_NEAR(ratio.below_one, 0.5 * std::erfc(std::log(0.9) / 0.05 / std::sqrt(2.0)), 1e-12);
  EXPECT_GT(ratio.below_one, 0.98);
  EXPECT_EQ(
      ratio_text(ratio),
      "2.3 to 17.1 % quicker in nine of ten measurements, quicker with a probability of 98.2 %");
  EXPECT_THAT(ratio_text(ratio_of(interval_of(9.9, {kHost}), interval_of(10.0, {kGemms}))),
              ::testing::StartsWith("8.8 % quicker to 7.5 % slower in nine"));
  EXPECT_THAT(
      ratio_text(ratio_of(interval_of(13.0, {kHost}), interval_of(10.0, {kGemms}))),
      ::testing::StartsWith("19.7 to 41.1 % slower in nine of ten measurements, slower with"));
  // Both ends count, however near to no difference.
  EXPECT_THAT(ratio_text({.ratio = 1.01, .low = 1.005, .high = 1.015, .below_one = 0.0}),
              ::testing::StartsWith("0.5 to 1.5 % slower in nine"));
  EXPECT_THAT(ratio_text({.ratio = 0.99, .low = 0.985, .high = 0.995, .below_one = 1.0}),
              ::testing::StartsWith("0.5 to 1.5 % quicker in nine"));
}

}  // namespace
}  // namespace trainyard
