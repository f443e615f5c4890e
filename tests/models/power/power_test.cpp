// Do power, clock and node power equal their formulas, and what do the data files stand for?
#include "models/power/power.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "models/power/prices.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

GpuPower round_gpu() {
  return {.limit_w = 700,
          .idle_w = 100,
          .active_w = 150,
          .tensor_w = 400,
          .memory_w = 300,
          .static_share = 0.2,  // 140 W
          .least_voltage = 0.8};
}

TEST(KernelPower, AddsTheUseOfTensorCoresAndMemoryUpToTheLimit) {
  const GpuPower gpu = round_gpu();
  EXPECT_DOUBLE_EQ(kernel_power_w(gpu, {}), 250.0);
  EXPECT_DOUBLE_EQ(kernel_power_w(gpu, {.tensor = 0.5, .memory = 0.1}), 250.0 + 200.0 + 30.0);
  EXPECT_DOUBLE_EQ(kernel_power_w(gpu, {.tensor = 1.0, .memory = 1.0}), 700.0);
}

// 560 W above the static power follow the cube of the clock down to 0.8, then clock times 0.64.
TEST(ClockUnderCap, InvertsThePowerOfClockAndVoltage) {
  const GpuPower gpu = round_gpu();
  EXPECT_DOUBLE_EQ(clock_under_cap(gpu, 500.0, 600.0), 1.0);
  EXPECT_NEAR(clock_under_cap(gpu, 700.0, 140.0 + 560.0 * 0.9 * 0.9 * 0.9), 0.9, 1e-12);
  EXPECT_NEAR(clock_under_cap(gpu, 700.0, 140.0 + 560.0 * 0.5 * 0.64), 0.5, 1e-12);
  const double at_least = 140.0 + 560.0 * 0.8 * 0.64;
  EXPECT_NEAR(clock_under_cap(gpu, 700.0, at_least - 1e-6), 0.8, 1e-6);
  EXPECT_NEAR(clock_under_cap(gpu, 700.0, at_least + 1e-6), 0.8, 1e-6);
}

TEST(ClockUnderCap, NeverRisesWhereTheCapFalls) {
  const GpuPower gpu = round_gpu();
  double before = 1.0;
  int steps = 0;
  for (double cap_w = 720.0; cap_w > 141.0; cap_w -= 1.0, ++steps) {
    const double clock = clock_under_cap(gpu, 690.0, cap_w);
    EXPECT_LE(clock, before) << cap_w;
    EXPECT_GT(clock, 0.0) << cap_w;
    before = clock;
  }
  EXPECT_EQ(steps, 579);
}

// Static power of 140 W, and 560 W times clock times squared voltage.
TEST(PowerAtClock, FollowsClockAndVoltage) {
  const GpuPower gpu = round_gpu();
  EXPECT_DOUBLE_EQ(power_at_clock_w(gpu, 700.0, 1.0), 700.0);
  EXPECT_NEAR(power_at_clock_w(gpu, 700.0, 0.9), 140.0 + 560.0 * 0.9 * 0.9 * 0.9, 1e-9);
  EXPECT_NEAR(power_at_clock_w(gpu, 700.0, 0.5), 140.0 + 560.0 * 0.5 * 0.64, 1e-9);
  EXPECT_DOUBLE_EQ(power_at_clock_w(gpu, 120.0, 0.5), 120.0) << "less than the static power";
}

TEST(PowerAtClock, InvertsTheClockUnderACap) {
  const GpuPower gpu = round_gpu();
  int caps = 0;
  for (double cap_w = 150.0; cap_w < 700.0; cap_w += 25.0, ++caps)
    EXPECT_NEAR(power_at_clock_w(gpu, 700.0, clock_under_cap(gpu, 700.0, cap_w)), cap_w, 1e-9);
  EXPECT_EQ(caps, 22);
}

// A kernel of the memory slows down where its tensor cores need more time than the memory.
TEST(SlowdownAtClock, IsThatOfTheTensorCoresOnceTheyBoundTheKernel) {
  EXPECT_DOUBLE_EQ(slowdown_at_clock({.tensor = 0.7, .memory = 0.2}, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(slowdown_at_clock({.tensor = 0.4, .memory = 0.8}, 0.6), 1.0);
  EXPECT_DOUBLE_EQ(slowdown_at_clock({.tensor = 0.4, .memory = 0.8}, 0.4), 1.25);
  EXPECT_DOUBLE_EQ(slowdown_at_clock({.tensor = 0.0, .memory = 0.8}, 0.5), 1.0);
  EXPECT_DOUBLE_EQ(slowdown_at_clock({.tensor = 0.7, .memory = 0.2}, 1.0), 1.0);
}

TEST(NodePower, AddsHostNicsFansAndLosses) {
  const PowerData data{
      .gpu = round_gpu(),
      .node = {.host_w_per_gpu = 140, .nic_w = 25, .fan_share = 0.05, .supply_loss = 0.02}};
  // 8 * 140 + 8 * 25 + 5600 + 0.05 * (5600 - 800) = 7160 W inside the node.
  EXPECT_NEAR(node_power_w(data, 8, 8, 5600), 7160 * 1.02, 1e-9);
  EXPECT_NEAR(gpu_cap_of_node_cap_w(data, 8, 8, node_power_w(data, 8, 8, 8 * 432.1)), 432.1, 1e-9);
}

// The constants of the node are the solution of two equations: idle and full nodes of MLPerf.
TEST(PowerData, AnH100NodeDrawsWhatWasMeasuredIdleAndFull) {
  const PowerData h100 = load_power("h100", "hopper", 700);
  EXPECT_FALSE(h100.derived);
  EXPECT_NEAR(node_power_w(h100, 8, 8, 8 * h100.gpu.idle_w), 2276, 2.0);
  EXPECT_NEAR(node_power_w(h100, 8, 8, 8 * h100.gpu.limit_w), 7340, 2.0);
  const PowerData b200 = load_power("b200", "blackwell", 1000);
  EXPECT_NEAR(node_power_w(b200, 8, 8, 8 * b200.gpu.idle_w), 2847, 2.0);
  EXPECT_NEAR(node_power_w(b200, 8, 8, 8 * b200.gpu.limit_w), 10422, 2.0);
}

TEST(PowerData, AGpuWithoutItsOwnTakesAMeasuredOneScaledByTheLimit) {
  const PowerData gb200 = load_power("gb200", "blackwell", 1200);
  EXPECT_TRUE(gb200.derived);
  EXPECT_TRUE(gb200.own_generation);
  EXPECT_EQ(gb200.measured, "b200");
  EXPECT_NEAR(gb200.gpu.idle_w, 157 * 1.2, 1e-9);
  const PowerData a100 = load_power("a100_80gb", "ampere", 0);
  EXPECT_EQ(a100.measured, "h100");
  EXPECT_FALSE(a100.own_generation);
  EXPECT_DOUBLE_EQ(a100.gpu.limit_w, 400);
  EXPECT_NEAR(a100.gpu.memory_w, 386 * 400 / 700.0, 1e-9);
}

TEST(PowerData, EveryFileLoads) {
  int files = 0;
  for (const std::string& name : data_names("models/power/data")) {
    const PowerData data = load_power(name, "", 0);
    EXPECT_GT(data.gpu.limit_w, data.gpu.idle_w + data.gpu.active_w) << name;
    EXPECT_GT(data.gpu.idle_w, 0.0) << name;
    EXPECT_LT(data.gpu.static_share, 1.0) << name;
    ++files;
  }
  EXPECT_EQ(files, 8);
}

TEST(PowerData, AGpuWhoseLimitNobodyKnowsIsRefusedWithARemedy) {
  try {
    static_cast<void>(load_power("some_gpu", "hopper", 0));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().front().problem,
              "the power limit of the GPU \"some_gpu\" is not known");
    EXPECT_NE(error.problems().front().hint.find("some_gpu.json"), std::string::npos);
  }
}

// Does every published price name a GPU of the profiles, a date and a source, once?
TEST(PublishedPrices, AreNamedOnceAndOfGpusThatExist) {
  std::set<std::string> names;
  const std::vector<std::string> gpus = data_names("kernels/profiles");
  for (const PublishedPrice& price : published_prices()) {
    EXPECT_TRUE(names.insert(price.name).second) << price.name;
    EXPECT_NE(std::ranges::find(gpus, price.gpu), gpus.end()) << price.name;
    EXPECT_GT(price.per_gpu_hour, 0.0) << price.name;
    EXPECT_FALSE(price.source.empty() || price.date.empty()) << price.name;
  }
  EXPECT_GE(names.size(), 10U);
}

TEST(PublishedPrices, AnOwnPriceWinsAndNoneIsNone) {
  EXPECT_FALSE(price_of_gpu_hour({}, "h100").has_value());
  EXPECT_EQ(price_of_gpu_hour({.price_presets = {"aws_p5_on_demand"}}, "h100"), 12.29);
  EXPECT_EQ(price_of_gpu_hour({.price_per_gpu_hour = 2.5}, "h100"), 2.5);
}

TEST(PublishedPrices, AreThoseOfEachGpu) {
  const PowerSettings power{.price_presets = {"aws_p5_on_demand", "aws_p4de_on_demand"}};
  EXPECT_EQ(price_of_gpu_hour(power, "h100"), 12.29);
  EXPECT_EQ(price_of_gpu_hour(power, "a100_80gb"), 5.12);
  EXPECT_FALSE(price_of_gpu_hour(power, "b200").has_value());
}

}  // namespace
}  // namespace trainyard
