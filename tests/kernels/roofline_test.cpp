// The roofline against its closed form (oracle 62: H100, n = k = 8192, bf16).
#include "kernels/roofline.hpp"

#include <gtest/gtest.h>

#include "kernels/gpu.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {
namespace {

constexpr FlopsPerSecond h100_bf16{989.4e12};
constexpr BytesPerSecond h100_hbm{3350e9};

double microseconds(std::int64_t m, FlopsPerSecond peak, BytesPerSecond hbm) {
  const Gemm gemm{.m = m, .n = 8192, .k = 8192};
  return roofline(flops(gemm), hbm_bytes(gemm), peak, hbm).value() * 1e6;
}

void expect_close(double actual, double expected) {
  EXPECT_NEAR(actual, expected, expected * 1e-9);
}

// Is a GEMM memory-bound for few rows and compute-bound for many on an H100?
TEST(Roofline, H100IsMemoryBoundForFewRowsAndComputeBoundForMany) {
  // Bytes 2 (2 * 64 * 8192 + 8192^2) over 3350e9, and FLOPs 2 m 8192^2 over 989.4e12.
  expect_close(microseconds(64, h100_bf16, h100_hbm), 136314880.0 / 3350e9 * 1e6);
  expect_close(microseconds(128, h100_bf16, h100_hbm), 138412032.0 / 3350e9 * 1e6);
  expect_close(microseconds(512, h100_bf16, h100_hbm), 68719476736.0 / 989.4e12 * 1e6);
  expect_close(microseconds(4096, h100_bf16, h100_hbm), 549755813888.0 / 989.4e12 * 1e6);
}

// Does the roofline agree with the published figures to their last digit?
TEST(Roofline, AgreesWithThePublishedFiguresToTheirLastDigit) {
  EXPECT_NEAR(microseconds(64, h100_bf16, h100_hbm), 40.691, 5e-4);
  EXPECT_NEAR(microseconds(128, h100_bf16, h100_hbm), 41.317, 5e-4);
  EXPECT_NEAR(microseconds(512, h100_bf16, h100_hbm), 69.456, 5e-4);
  EXPECT_NEAR(microseconds(4096, h100_bf16, h100_hbm), 555.646, 5e-4);
  constexpr FlopsPerSecond a100{312e12};
  constexpr BytesPerSecond a100_hbm{2039e9};
  EXPECT_NEAR(microseconds(64, a100, a100_hbm), 66.85, 5e-3);
  EXPECT_NEAR(microseconds(128, a100, a100_hbm), 67.88, 5e-3);
  EXPECT_NEAR(microseconds(512, a100, a100_hbm), 220.25, 6e-3);
  EXPECT_NEAR(microseconds(4096, a100, a100_hbm), 1762.04, 5e-3);
}

// Are both bounds equal at the ridge point?
TEST(Roofline, RidgeIsWhereBothBoundsMeet) {
  expect_close(ridge(h100_bf16, h100_hbm), 989.4 / 3.35);
  EXPECT_NEAR(ridge(h100_bf16, h100_hbm), 295.343, 5e-4);
  const Bytes bytes{1e9};
  const Flops work{1e9 * ridge(h100_bf16, h100_hbm)};
  expect_close(work / h100_bf16 / (bytes / h100_hbm), 1.0);
}

// Do memory-bound kernels need no arithmetic rate?
TEST(Roofline, MemoryBoundKernelsNeedNoArithmeticRate) {
  expect_close(roofline(Flops{0}, Bytes{3350e9}, FlopsPerSecond{0}, h100_hbm).value(), 1.0);
}

// Are 4-bit GEMMs as much faster as their peak? On a B200 9000 TFLOP/s are twice the 4500 of 8
// bits; an H100 has none.
TEST(FourBitShare, IsTheRatioOfThePeaks) {
  EXPECT_DOUBLE_EQ(four_bit_share(load_gpu_sheet("b200")), 4500.0 / 9000.0);
  EXPECT_THROW(static_cast<void>(four_bit_share(load_gpu_sheet("h100"))), InputError);
}

// Element-wise kernels and copies.

// Is the time of a memory-bound kernel its traffic over the bandwidth plus a launch floor?
TEST(MemoryBound, IsTrafficOverBandwidthAndALaunchFloor) {
  const GpuSheet sheet = load_gpu_sheet("a100_80gb");
  const MemoryModel model{.floor = Seconds{1e-6}, .bandwidth_efficiency = 0.5};
  const MemoryBound kernel{.bytes = 2'039'000'000, .launches = 3};
  EXPECT_NEAR(memory_bound_cost(sheet, model, kernel).time.value(), 3e-6 + 2e-3, 1e-12);
}

// Is a memory-bound kernel never faster than the bandwidth and never below the floor?
TEST(MemoryBound, NeverBeatsTheBandwidthAndNeverFallsBelowTheFloor) {
  for (const std::string& name : gpu_names()) {
    const GpuSheet sheet = load_gpu_sheet(name);
    const auto model = load_cost_model(name);
    Seconds last{0};
    for (std::int64_t bytes = 1; bytes < 10'000'000'000; bytes *= 7) {
      const Seconds time = model->cost(MemoryBound{.bytes = bytes}).time;
      EXPECT_GT(time, Bytes{static_cast<double>(bytes)} / sheet.hbm);
      EXPECT_GT(time, Seconds{5e-7});
      EXPECT_GT(time, last);
      last = time;
    }
  }
}

// Do copies cross the host link once, or HBM twice?
TEST(MemoryBound, CopiesCrossTheHostLinkOrHbmTwice) {
  const auto model = load_cost_model("h100");
  const GpuSheet sheet = load_gpu_sheet("h100");
  const auto time = [&](CopyKind kind) {
    return model->cost(Copy{.kind = kind, .bytes = 1'000'000'000}).time;
  };
  EXPECT_GT(time(CopyKind::DeviceToDevice), Bytes{2e9} / sheet.hbm);
  EXPECT_GT(time(CopyKind::HostToDevice), Bytes{1e9} / sheet.host_link);
  EXPECT_LT(time(CopyKind::HostToDevice), Bytes{1.2e9} / sheet.host_link);
  EXPECT_EQ(time(CopyKind::HostToDevice), time(CopyKind::DeviceToHost));
}

}  // namespace
}  // namespace trainyard
