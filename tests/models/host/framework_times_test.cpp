// The factors of a framework on kernel times, for the GPU generations that its file names.
#include <gtest/gtest.h>

#include "models/framework.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

GroupedGemm experts(DataType dtype, bool per_expert) {
  GroupedGemm gemms;
  gemms.dtype = dtype;
  gemms.per_expert = per_expert;
  return gemms;
}

// Do experts in one launch take the time of the profile? The factors are for GEMMs launched one by
// one; narrower GEMMs are quicker in both cases.
TEST(FrameworkTimes, ExpertsInOneLaunchTakeTheProfilesTime) {
  FrameworkTimes times{.grouped_gemm = 4.0, .fp8_grouped_gemm = 4.5};
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, false)), 1.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, false)), 1.0);
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, false)), 0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, true)), 2.25);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, true)), 4.0);
}

// Do 4-bit GEMMs take more time than the data sheet states? It is the data sheet's share of an
// 8-bit GEMM, times the framework's factor.
TEST(FrameworkTimes, FourBitProductsTakeMoreThanTheDataSheetSays) {
  FrameworkTimes times{.gemm = 2.0, .fp8_gemm = 3.0, .fp4_gemm = 1.2};
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(Gemm{.dtype = DataType::Fp8}), 1.8);
  EXPECT_DOUBLE_EQ(times.of(Gemm{}), 2.0);
}

// Do fused experts take the time of the profile?
TEST(FrameworkTimes, FusedExpertsTakeTheProfilesTime) {
  FrameworkTimes times{.gemm = 2.0, .grouped_gemm = 4.0, .fp8_grouped_gemm = 4.5};
  times.fuse_experts();
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, true)), 1.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, true)), 0.5);
  EXPECT_DOUBLE_EQ(times.of(Gemm{}), 2.0);
}

// Does every kind of kernel have its own factor?
TEST(FrameworkTimes, EveryKindOfKernelHasItsOwn) {
  const FrameworkTimes times{.gemm = 2.0,
                             .fp8_gemm = 3.0,
                             .grouped_gemm = 4.0,
                             .fp8_grouped_gemm = 4.5,
                             .attention = 5.0,
                             .ring_attention = 5.5,
                             .memory_bound = 6.0};
  EXPECT_DOUBLE_EQ(times.of(Gemm{}), 2.0);
  EXPECT_DOUBLE_EQ(times.of(Gemm{.dtype = DataType::Fp8}), 3.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, true)), 4.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, true)), 4.5);
  EXPECT_DOUBLE_EQ(times.of(Attention{}), 5.0);
  EXPECT_DOUBLE_EQ(times.of(Attention{.of_ring = true}), 5.5);
  EXPECT_DOUBLE_EQ(times.of(MemoryBound{}), 6.0);
}

// Is memory-efficient attention slower than in the profile? The kernels of xFormers replace the
// framework's own ones, and the backward has its own factor.
TEST(FrameworkTimes, MemoryEfficientAttentionIsSlowerThanTheProfiles) {
  FrameworkTimes times{.attention = 5.0, .attention_backward = 6.0, .ring_attention = 7.0};
  EXPECT_DOUBLE_EQ(times.of(Attention{.backward = true}), 6.0);
  times.attend({.forward = 2.0, .backward = 3.0});
  EXPECT_DOUBLE_EQ(times.of(Attention{}), 2.0);
  EXPECT_DOUBLE_EQ(times.of(Attention{.backward = true}), 3.0);
  EXPECT_DOUBLE_EQ(times.of(Attention{.of_ring = true}), 7.0);
  for (const char* generation : {"ampere", "hopper"}) {
    const AttentionTimes shipped = load_memory_efficient_times(generation);
    EXPECT_GT(shipped.forward, 1.0) << generation;
    EXPECT_GT(shipped.backward, shipped.forward) << generation;
  }
}

// Is memory-efficient attention refused for GPUs without a measurement?
TEST(FrameworkTimes, MemoryEfficientAttentionIsNotGuessedForOtherGpus) {
  try {
    static_cast<void>(load_memory_efficient_times("blackwell"));
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().front().pointer, "/training/attention");
    EXPECT_EQ(error.problems().front().problem,
              "nothing is measured of memory_efficient kernels on GPUs of generation blackwell "
              "(known: ampere, hopper)");
  }
}

// Does a block of a context ring have additional memory passes? Passes over a block's queries do
// not grow with the number of visible keys, and no other kernel has them.
TEST(FrameworkTimes, ABlockOfARingHasPassesBesideIt) {
  const FrameworkTimes times{.ring_passes = 10.0};
  Attention block{.query_heads = 8,
                  .query_length = 4096,
                  .kv_length = 2048,
                  .head_dim_qk = 128,
                  .of_ring = true};
  EXPECT_EQ(times.ring_bytes(block), 10 * 8 * 4096 * 128 * 2);
  block.kv_length = 65536;
  EXPECT_EQ(times.ring_bytes(block), 10 * 8 * 4096 * 128 * 2);
  block.of_ring = false;
  EXPECT_EQ(times.ring_bytes(block), 0);
  EXPECT_EQ(times.ring_bytes(Gemm{}), 0);
}

// Is only the named GPU generation slower?
TEST(FrameworkTimes, OnlyTheGenerationThatIsNamedIsSlower) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "old.json";
  write_file(file, R"({"kernel_time": {"ampere": {"gemm": {"value": 1.1, "source": "a table"}}}})");
  const FrameworkTimes slower = load_framework_times(file.string(), "ampere");
  EXPECT_DOUBLE_EQ(slower.gemm, 1.1);
  EXPECT_DOUBLE_EQ(slower.fp8_gemm, 1.1);
  EXPECT_DOUBLE_EQ(slower.attention, 1.0);
  const FrameworkTimes other = load_framework_times(file.string(), "hopper");
  EXPECT_DOUBLE_EQ(other.gemm, 1.0);
}

// Does a factor for any generation hold where a generation has none of its own?
TEST(FrameworkTimes, AFactorForAnyGenerationYieldsToThatOfAGeneration) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "any.json";
  write_file(file, R"({"kernel_time": {
    "any_generation": {"fp8_grouped_gemm": {"value": 1.3, "source": "a table"}},
    "hopper": {"fp8_grouped_gemm": {"value": 1.2, "source": "another"}},
    "blackwell": {"grouped_gemm": {"value": 2.0, "source": "a third"}}}})");
  EXPECT_DOUBLE_EQ(load_framework_times(file.string(), "ampere").fp8_grouped_gemm, 1.3);
  EXPECT_DOUBLE_EQ(load_framework_times(file.string(), "ampere").grouped_gemm, 1.0);
  EXPECT_DOUBLE_EQ(load_framework_times(file.string(), "hopper").fp8_grouped_gemm, 1.2);
  EXPECT_DOUBLE_EQ(load_framework_times(file.string(), "blackwell").fp8_grouped_gemm, 1.3);
  EXPECT_DOUBLE_EQ(load_framework_times(file.string(), "blackwell").grouped_gemm, 2.0);
}

// Do dispatch and combine keep their SMs? DeepSeek-V3 uses 20 of 132 SMs: GEMMs and attention run
// on 112, and memory-bound kernels are not slowed.
TEST(FrameworkTimes, ExchangesKeepTheirSms) {
  const FrameworkTimes times = load_framework_times("hai_llm", "hopper");
  EXPECT_EQ(times.dispatch_sms, 20);
  EXPECT_DOUBLE_EQ(times.dispatch_slowdown(Gemm{}, 132, 1.0), 132.0 / 112.0);
  EXPECT_DOUBLE_EQ(times.dispatch_slowdown(GroupedGemm{}, 132, 1.0), 132.0 / 112.0);
  EXPECT_DOUBLE_EQ(times.dispatch_slowdown(Attention{}, 132, 0.5), 132.0 / 122.0);
  EXPECT_DOUBLE_EQ(times.dispatch_slowdown(MemoryBound{}, 132, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(FrameworkTimes{}.dispatch_slowdown(Gemm{}, 132, 1.0), 1.0);
}

// Is a mistyped kind of kernel refused?
TEST(FrameworkTimes, AMistypedKindIsRefused) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "typo.json";
  write_file(file, R"({"kernel_time": {"ampere": {"gems": {"value": 1.1, "source": "a table"}}}})");
  EXPECT_THROW(static_cast<void>(load_framework_times(file.string(), "ampere")), InputError);
}

// Can every framework of the repository be read?
TEST(FrameworkTimes, EveryShippedFrameworkIsRead) {
  EXPECT_GE(data_names("models/frameworks").size(), 14U);
  for (const std::string& name : data_names("models/frameworks")) {
    EXPECT_GT(load_framework(name).context_bytes, 0) << name;
    for (const char* generation : {"ampere", "hopper", "blackwell"})
      EXPECT_GT(load_framework_times(name, generation).gemm, 0.0) << name;
  }
}

}  // namespace
}  // namespace trainyard
