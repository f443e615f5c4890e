// Does a framework say how much longer its kernels take, on the generation it names alone?
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

// Figures are of products issued one by one; narrower products are quicker either way.
TEST(FrameworkTimes, ExpertsInOneLaunchTakeTheProfilesTime) {
  FrameworkTimes times{.grouped_gemm = 4.0, .fp8_grouped_gemm = 4.5};
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, false)), 1.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, false)), 1.0);
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, false)), 0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, true)), 2.25);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, true)), 4.0);
}

// The data sheet's share of an 8-bit product's time, times what the framework's take beside it.
TEST(FrameworkTimes, FourBitProductsTakeMoreThanTheDataSheetSays) {
  FrameworkTimes times{.gemm = 2.0, .fp8_gemm = 3.0, .fp4_gemm = 1.2};
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(Gemm{.dtype = DataType::Fp8}), 1.8);
  EXPECT_DOUBLE_EQ(times.of(Gemm{}), 2.0);
}

TEST(FrameworkTimes, FusedExpertsTakeTheProfilesTime) {
  FrameworkTimes times{.gemm = 2.0, .grouped_gemm = 4.0, .fp8_grouped_gemm = 4.5};
  times.fuse_experts();
  times.narrow(0.5);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Bf16, true)), 1.0);
  EXPECT_DOUBLE_EQ(times.of(experts(DataType::Fp8, true)), 0.5);
  EXPECT_DOUBLE_EQ(times.of(Gemm{}), 2.0);
}

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

// The kernels of xFormers stand in place of the framework's own, and the backward has a figure of
// its own.
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

// Passes over a block's queries do not grow with the keys that they see, and no other kernel has
// them.
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

// DeepSeek-V3's 20 of 132 SMs: products and attention run on 112, what memory bounds does not wait.
TEST(FrameworkTimes, ExchangesKeepTheirSms) {
  const FrameworkTimes times = load_framework_times("hai_llm", "hopper");
  EXPECT_EQ(times.dispatch_sms, 20);
  EXPECT_DOUBLE_EQ(times.beside_dispatch(Gemm{}, 132, 1.0), 132.0 / 112.0);
  EXPECT_DOUBLE_EQ(times.beside_dispatch(GroupedGemm{}, 132, 1.0), 132.0 / 112.0);
  EXPECT_DOUBLE_EQ(times.beside_dispatch(Attention{}, 132, 0.5), 132.0 / 122.0);
  EXPECT_DOUBLE_EQ(times.beside_dispatch(MemoryBound{}, 132, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(FrameworkTimes{}.beside_dispatch(Gemm{}, 132, 1.0), 1.0);
}

TEST(FrameworkTimes, AMistypedKindIsRefused) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "typo.json";
  write_file(file, R"({"kernel_time": {"ampere": {"gems": {"value": 1.1, "source": "a table"}}}})");
  EXPECT_THROW(static_cast<void>(load_framework_times(file.string(), "ampere")), InputError);
}

TEST(FrameworkTimes, EveryShippedFrameworkIsRead) {
  for (const std::string& name : data_names("models/frameworks")) {
    EXPECT_GT(load_framework(name).context_bytes, 0) << name;
    for (const char* generation : {"ampere", "hopper", "blackwell"})
      EXPECT_GT(load_framework_times(name, generation).gemm, 0.0) << name;
  }
}

}  // namespace
}  // namespace trainyard
