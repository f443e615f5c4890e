// cuDNN's engines for the attention graphs of the profiler, on GPUs that are described by their
// properties and need not be present. The shapes are those of training: plain and grouped heads,
// latent attention, long sequences, no mask.
#include "kernels/bench/attention_graph.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/bench/measured_profile.hpp"

namespace trainyard::bench {
namespace {

struct DescribedGpu {
  const char* name;
  int version, sms, shared_bytes;
};
// Compute capability times 100, SMs, and the shared memory of a thread block (CUDA C++ Programming
// Guide, table of compute capabilities: 163 KiB on 8.0, 227 KiB on 9.0 and 10.0).
constexpr DescribedGpu a100{"NVIDIA A100-SXM4-80GB", 800, 108, 163 << 10};
constexpr DescribedGpu h100{"NVIDIA H100 80GB HBM3", 900, 132, 227 << 10};
constexpr DescribedGpu b200{"NVIDIA B200", 1000, 148, 227 << 10};

std::string properties(const DescribedGpu& gpu) {
  return fmt::format(
      R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
      "regsPerBlock": 65536, "multiProcessorCount": {}, "warpSize": 32,
      "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {},
      "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
      "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
      "supportCoopLaunch": 1, "totalGlobalMem": 85899345920, "smClockRateKHz": 1410000,
      "memClockRateKHz": 1593000, "l2CacheSize": 41943040, "cudaDeviceId": 0, "deviceVer": {},
      "driverVer": 13000, "deviceName": "{}"}})",
      gpu.sms, gpu.shared_bytes, gpu.version, gpu.name);
}

// cuDNN compiles attention at run time and offers no engine without the library of a driver.
class AttentionGraph : public testing::Test {
 protected:
  void SetUp() override {
    const bool driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL) != nullptr ||
                        dlopen(TRAINYARD_DRIVER_STUB, RTLD_LAZY | RTLD_GLOBAL) != nullptr;
    if (!driver)
      GTEST_SKIP() << "SKIPPED, NOT TESTED: without a CUDA driver or a stub of it, cuDNN offers no "
                      "engine";
    constexpr std::size_t describes_devices = 90'800;
    if (cudnnGetVersion() < describes_devices)
      GTEST_SKIP()
          << "SKIPPED, NOT TESTED: cuDNN before 9.8 cannot be asked about GPUs that are not "
             "there";
  }
  static std::size_t engines(const CudnnGraph& graph, const DescribedGpu& gpu) {
    const CudnnDescriptor device = described_device(properties(gpu));
    return CudnnEngines(graph, {.device = device.get()}).size();
  }
};

Attention causal(std::int64_t heads, std::int64_t kv_heads, std::int64_t length,
                 std::int64_t dim_qk, std::int64_t dim_v) {
  return {.query_heads = heads,
          .kv_heads = kv_heads,
          .query_length = length,
          .kv_length = length,
          .head_dim_qk = dim_qk,
          .head_dim_v = dim_v,
          .pairs = length * (length + 1) / 2};
}

// Does cuDNN offer an engine for every shape of training?
TEST_F(AttentionGraph, CudnnHasEnginesForTheShapesOfTraining) {
  Attention unmasked = causal(16, 16, 2048, 64, 64);
  unmasked.causal = false;
  unmasked.pairs = 2048 * 2048;
  Attention half = causal(32, 8, 4096, 128, 128);
  half.dtype = DataType::Fp16;
  for (const Attention& a :
       {causal(32, 32, 4096, 128, 128), half, causal(8, 1, 32768, 128, 128), unmasked}) {
    ASSERT_FALSE(unfit_for_cudnn(a));
    for (const DescribedGpu& gpu : {a100, h100, b200}) {
      EXPECT_GT(engines(forward_attention(a).graph, gpu), 0U) << gpu.name << to_text(a);
      EXPECT_GT(engines(backward_attention(a).graph, gpu), 0U) << gpu.name << to_text(a);
    }
  }
}

// Does cuDNN offer a backward with heads of 192? cuDNN 9.19 has it from Hopper on; on Ampere the
// profiler leaves the row out.
TEST_F(AttentionGraph, LatentHeadsGoBackwardFromHopperOn) {
  const Attention latent = causal(16, 16, 4096, 192, 128);
  for (const DescribedGpu& gpu : {a100, h100, b200})
    EXPECT_GT(engines(forward_attention(latent).graph, gpu), 0U) << gpu.name;
  EXPECT_GT(engines(backward_attention(latent).graph, h100), 0U);
  EXPECT_GT(engines(backward_attention(latent).graph, b200), 0U);
  EXPECT_EQ(engines(backward_attention(latent).graph, a100), 0U);
}

// Does a shape that the profiler does not measure come with a reason?
TEST_F(AttentionGraph, WhatIsNotAskedSaysWhy) {
  const Attention sound = causal(32, 8, 4096, 128, 128);
  const auto reason = [&](auto change) {
    Attention changed = sound;
    change(changed);
    return unfit_for_cudnn(changed).value_or("");
  };
  EXPECT_EQ(reason([](Attention&) {}), "");
  EXPECT_NE(reason([](Attention& a) { a.dtype = DataType::Fp8; }), "");
  EXPECT_NE(reason([](Attention& a) { a.kv_heads = 5; }), "");
  EXPECT_NE(reason([](Attention& a) { a.kv_length = 8192; }), "");
  EXPECT_NE(reason([](Attention& a) { a.pairs /= 2; }), "");
  EXPECT_NE(reason([](Attention& a) { a.head_dim_v = 100; }), "");
  EXPECT_THROW((void)described_device("{}"), RunError);
}

}  // namespace
}  // namespace trainyard::bench
