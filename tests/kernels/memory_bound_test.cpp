// Streaming kernels and copies.
#include "kernels/memory_bound.hpp"

#include <gtest/gtest.h>

#include "kernels/gpu.hpp"

namespace trainyard {
namespace {

TEST(MemoryBound, IsTrafficOverBandwidthAndALaunchFloor) {
  const GpuSheet sheet = load_gpu_sheet("a100_80gb");
  const MemoryModel model{.floor = Seconds{1e-6}, .bandwidth_efficiency = 0.5};
  const MemoryBound kernel{.bytes = 2'039'000'000, .launches = 3};
  EXPECT_NEAR(memory_bound_cost(sheet, model, kernel).time.value(), 3e-6 + 2e-3, 1e-12);
}

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
