// FLOPs and bytes of kernels (oracles 63 and 64).
#include <gtest/gtest.h>

#include "sim/workload/kernel.hpp"

namespace trainyard {
namespace {

// The attention of one layer of Llama-3 70B: 64 query heads of 128, 8 key-value heads, s = 8192,
// causal.
Attention llama3_70b(bool backward) {
  constexpr std::int64_t s = 8192;
  return {.batch = 1,
          .query_heads = 64,
          .kv_heads = 8,
          .query_length = s,
          .kv_length = s,
          .head_dim_qk = 128,
          .head_dim_v = 128,
          .pairs = s * s / 2,
          .backward = backward};
}

// Are the FLOPs of causal attention those of the formula?
TEST(KernelCounts, CausalAttentionOfLlama3) {
  // 4 b a s^2 d / 2, half of the pairs without the diagonal.
  EXPECT_DOUBLE_EQ(flops(llama3_70b(false)).value(), 1.099511627776e12);
  EXPECT_DOUBLE_EQ(flops(llama3_70b(true)).value() / flops(llama3_70b(false)).value(), 2.5);
}

// Does the exact number of causal pairs include the diagonal?
TEST(KernelCounts, ExactCausalPairsAddTheDiagonal) {
  Attention a = llama3_70b(false);
  a.pairs = 8192LL * 8193 / 2;
  EXPECT_DOUBLE_EQ(flops(a).value(), 4.0 * 64 * 128 * 33558528.0);
}

// Does Adam move 30 bytes per parameter?
TEST(KernelCounts, AdamMovesThirtyBytesPerParameter) {
  EXPECT_EQ(adam_mixed_bytes_per_parameter, 30);
  const MemoryBound step{.kind = MemoryBoundKind::Optimizer,
                         .bytes = 1'004'000'000 * adam_mixed_bytes_per_parameter};
  EXPECT_DOUBLE_EQ((hbm_bytes(step) / BytesPerSecond{3.0e12}).value(), 0.01004);
}

// Does a GEMM count two FLOPs per multiply-add?
TEST(KernelCounts, ProductsCountTwoPerMultiplyAdd) {
  const Gemm gemm{.m = 8192, .n = 1280, .k = 8192, .batch = 3};
  EXPECT_DOUBLE_EQ(flops(gemm).value(), 3 * 2.0 * 8192 * 1280 * 8192);
  EXPECT_DOUBLE_EQ(hbm_bytes(gemm).value(),
                   3 * 2.0 * (8192.0 * 8192 + 8192.0 * 1280 + 8192.0 * 1280));
}

// Does accumulation read and write fp32?
TEST(KernelCounts, AccumulationReadsAndWritesFp32) {
  Gemm gemm{.m = 128, .n = 256, .k = 64};
  const double plain = hbm_bytes(gemm).value();
  gemm.accumulate_fp32 = true;
  EXPECT_DOUBLE_EQ(hbm_bytes(gemm).value() - plain, 6.0 * 128 * 256);
}

// Does a grouped GEMM read the weights of every expert?
TEST(KernelCounts, GroupedProductsReadEveryExpertsWeights) {
  const GroupedGemm grouped{.rows = {10, 0, 30}, .n = 64, .k = 32};
  EXPECT_DOUBLE_EQ(flops(grouped).value(), 2.0 * 40 * 64 * 32);
  EXPECT_DOUBLE_EQ(hbm_bytes(grouped).value(), 2.0 * (40 * 32 + 3 * 32 * 64 + 40 * 64));
  GroupedGemm added = grouped;
  added.pass = GemmPass::WeightGrad;
  added.accumulate_fp32 = true;  // reads and writes the fp32 gradients of all three
  EXPECT_DOUBLE_EQ(hbm_bytes(added).value(), 2.0 * 40 * (32 + 64) + 8.0 * 3 * 32 * 64);
}

}  // namespace
}  // namespace trainyard
