#include "kernels/bench/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace trainyard::reference {
namespace {

constexpr double relative = 1e-12;

// A = (1 2 3; 4 5 6) and B = (7 8; 9 10; 11 12), so A B = (58 64; 139 154).
struct Stored {
  std::vector<double> a, b;
};
Stored stored_for(const Gemm& gemm) {
  return {a_is_transposed(gemm) ? std::vector<double>{1, 4, 2, 5, 3, 6}
                                : std::vector<double>{1, 2, 3, 4, 5, 6},
          b_is_transposed(gemm) ? std::vector<double>{7, 9, 11, 8, 10, 12}
                                : std::vector<double>{7, 8, 9, 10, 11, 12}};
}
StoredValue values(const std::vector<double>& memory) {
  return [&memory](std::int64_t place) { return memory.at(static_cast<std::size_t>(place)); };
}

// Does every storage layout give the GEMM that was computed by hand?
TEST(GemmReference, EveryLayoutGivesTheProductDoneByHand) {
  for (const DataType dtype : {DataType::Bf16, DataType::Fp8})
    for (const GemmPass pass : {GemmPass::Forward, GemmPass::DataGrad, GemmPass::WeightGrad}) {
      const Gemm gemm{.m = 2, .n = 2, .k = 3, .dtype = dtype, .pass = pass};
      const Stored stored = stored_for(gemm);
      const auto entry = [&](std::int64_t row, std::int64_t column) {
        return gemm_entry(gemm, {0, row, column}, values(stored.a), values(stored.b));
      };
      EXPECT_EQ(entry(0, 0), 58.0);
      EXPECT_EQ(entry(0, 1), 64.0);
      EXPECT_EQ(entry(1, 0), 139.0);
      EXPECT_EQ(entry(1, 1), 154.0);
    }
}

// Do the passes use the layouts TN, NN and NT, and fp8 always TN?
TEST(GemmReference, PassesAreTnNnAndNtButFp8IsAlwaysTn) {
  const auto layout = [](DataType dtype, GemmPass pass) {
    const Gemm gemm{.m = 2, .n = 2, .k = 3, .dtype = dtype, .pass = pass};
    // BLAS is column-major and takes B first.
    return std::string(b_is_transposed(gemm) ? "T" : "N") + (a_is_transposed(gemm) ? "T" : "N");
  };
  EXPECT_EQ(layout(DataType::Bf16, GemmPass::Forward), "TN");
  EXPECT_EQ(layout(DataType::Bf16, GemmPass::DataGrad), "NN");
  EXPECT_EQ(layout(DataType::Bf16, GemmPass::WeightGrad), "NT");
  EXPECT_EQ(layout(DataType::Fp8, GemmPass::DataGrad), "TN");
  EXPECT_EQ(layout(DataType::Fp8, GemmPass::WeightGrad), "TN");
}

// Are the matrices of a batch stored one after another?
TEST(GemmReference, BatchesLieOneAfterAnother) {
  const Gemm gemm{.m = 2, .n = 5, .k = 3, .batch = 4};
  EXPECT_EQ(a_index(gemm, {2, 1, 4}, 2), 2 * 6 + 1 * 3 + 2);
  EXPECT_EQ(b_index(gemm, {2, 1, 4}, 2), 2 * 15 + 4 * 3 + 2);
  EXPECT_EQ(result_place(gemm, {2, 1, 4}), 2 * 10 + 1 * 5 + 4);
}

// Does GELU follow its tanh approximation?
TEST(GemmReference, GeluOfItsTanhForm) {
  EXPECT_NEAR(gelu(1.0), 0.841192, 5e-7);
  EXPECT_NEAR(gelu(-1.0), -0.158808, 5e-7);
  EXPECT_EQ(gelu(0.0), 0.0);
}

// Does RMSNorm divide by the root of the mean square?
TEST(RowReference, RmsNormDividesByTheRootOfTheMeanSquare) {
  const auto normed = rms_norm_row(std::vector{3.0, 4.0}, std::vector{1.0, 2.0}, 0.0);
  EXPECT_NEAR(normed[0], 3.0 / std::sqrt(12.5), relative);
  EXPECT_NEAR(normed[1], 8.0 / std::sqrt(12.5), relative);
  EXPECT_NEAR(rms_norm_row(std::vector{0.0}, std::vector{1.0})[0], 0.0, relative);
}

// Does LayerNorm subtract the mean and add the bias?
TEST(RowReference, LayerNormTakesTheMeanOutAndAddsTheBias) {
  const auto normed = layer_norm_row(std::vector{1.0, 3.0}, std::vector{1.0, 2.0, 0.0, 10.0}, 0.0);
  EXPECT_NEAR(normed[0], -1.0, relative);
  EXPECT_NEAR(normed[1], 12.0, relative);
  EXPECT_EQ(layer_norm_row(std::vector{5.0}, std::vector{1.0, 4.0})[0], 4.0);
}

// Does SwiGLU multiply the second half by the gate?
TEST(RowReference, SwigluGatesTheSecondHalf) {
  const auto activated = swiglu_row(std::vector{0.0, std::log(3.0), 5.0, 4.0});
  ASSERT_EQ(activated.size(), 2U);
  EXPECT_NEAR(activated[0], 0.0, relative);
  EXPECT_NEAR(activated[1], std::log(3.0) * 0.75 * 4.0, relative);
}

// Do softmax shares add up to 1 for large values too?
TEST(RowReference, SoftmaxSharesAddUpHoweverLargeTheValues) {
  const auto share = softmax_row(std::vector{1000.0, 1000.0 + std::log(3.0)});
  EXPECT_NEAR(share[0], 0.25, relative);
  EXPECT_NEAR(share[1], 0.75, relative);
}

// Does RoPE rotate columns that are half a head apart? One head of four columns is rotated by 90
// degrees (cosine 0, sine 1) and by 0, and the second head in the same way.
TEST(RowReference, RopeTurnsColumnsHalfAHeadApart) {
  const std::vector<double> x = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0};
  const auto turned = rope_row(x, std::vector{0.0, 1.0, 1.0, 0.0});
  EXPECT_EQ(turned, (std::vector{-3.0, 2.0, 1.0, 4.0, -7.0, 6.0, 5.0, 8.0}));
}

// Does the gradient of cross-entropy add up to zero?
TEST(RowReference, CrossEntropysGradientAddsUpToNothing) {
  const auto gradient = cross_entropy_gradient_row(std::vector{0.0, std::log(3.0)}, 1);
  EXPECT_NEAR(gradient[0], 0.25, relative);
  EXPECT_NEAR(gradient[1], -0.25, relative);
}

// Is the first step of Adam correct? From zero its size is the learning rate, whatever the
// gradient, and the weight decays: 1 - 0.1 (1 + 0.5 * 1) = 0.85.
TEST(RowReference, AdamsFirstStep) {
  const AdamConstants constants{
      .rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 0.0, .decay = 0.5};
  const AdamState after = adam_step({.weight = 1.0}, 4.0, constants);
  EXPECT_NEAR(after.momentum, 0.4, relative);
  EXPECT_NEAR(after.variance, 0.16, relative);
  EXPECT_NEAR(after.weight, 0.85, relative);
}

// Does Adam use its momentum? With momentum 1 before: (0.9 + 0.4) / 0.1 = 13 over the root of 16,
// so 1 - 0.1 * 13 / 4 = 0.675.
TEST(RowReference, AdamKeepsItsMomentum) {
  const AdamConstants constants{
      .rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 0.0, .decay = 0.0};
  const AdamState after = adam_step({.weight = 1.0, .momentum = 1.0}, 4.0, constants);
  EXPECT_NEAR(after.weight, 0.675, relative);
}

// Does attention average the visible values if all scores are equal? With queries of zero every
// visible key has the same weight: values 1 and 3 give 1, then 2.
TEST(AttentionReference, EqualScoresAverageTheValuesSeen) {
  const std::vector<double> nothing = {0, 0}, v = {1, 3};
  const AttentionOperands operands{values(nothing), values(nothing), values(v)};
  Attention attention{.query_heads = 1,
                      .kv_heads = 1,
                      .query_length = 2,
                      .kv_length = 2,
                      .head_dim_qk = 1,
                      .head_dim_v = 1};
  EXPECT_NEAR(attention_row(attention, {}, operands).values[0], 1.0, relative);
  const ResultRow last = attention_row(attention, {.position = 1}, operands);
  EXPECT_NEAR(last.values[0], 2.0, relative);
  EXPECT_NEAR(last.log_sum, std::log(2.0), relative);
  attention.causal = false;
  EXPECT_NEAR(attention_row(attention, {}, operands).values[0], 2.0, relative);
}

// Two sequences of five, four query heads on two key heads. Every gradient is compared with the
// slope of the sum of result times result gradient.
struct SmallAttention {
  Attention attention{.batch = 2,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .query_length = 5,
                      .kv_length = 5,
                      .head_dim_qk = 3,
                      .head_dim_v = 2};
  std::vector<double> q, k, v, gradient;
  SmallAttention() {
    for (std::size_t i = 0; i < 120; ++i) q.push_back(std::sin(static_cast<double>(i)));
    for (std::size_t i = 0; i < 60; ++i) k.push_back(std::cos(static_cast<double>(3 * i)));
    for (std::size_t i = 0; i < 40; ++i) v.push_back(std::sin(static_cast<double>(5 * i + 1)));
    for (std::size_t i = 0; i < 80; ++i)
      gradient.push_back(std::cos(static_cast<double>(7 * i + 2)));
  }
  [[nodiscard]] AttentionOperands operands() const { return {values(q), values(k), values(v)}; }
  template <class Each>
  void for_queries(const Each& each) const {
    for (std::int64_t batch = 0; batch < 2; ++batch)
      for (std::int64_t head = 0; head < 4; ++head)
        for (std::int64_t position = 0; position < 5; ++position)
          each(AttentionRow{batch, head, position});
  }
  [[nodiscard]] double loss() const {
    double sum = 0.0;
    for_queries([&](const AttentionRow& row) {
      const auto result = attention_row(attention, row, operands()).values;
      const auto first = static_cast<std::size_t>(row_place(row, 5, 4, 2));
      sum += result[0] * gradient[first] + result[1] * gradient[first + 1];
    });
    return sum;
  }
  // The slope by a central difference, with an error of the third derivative times the square of
  // the step.
  [[nodiscard]] double slope(std::vector<double> SmallAttention::*of, std::int64_t place) const {
    constexpr double step = 1e-4;
    SmallAttention up = *this, down = *this;
    (up.*of)[static_cast<std::size_t>(place)] += step;
    (down.*of)[static_cast<std::size_t>(place)] -= step;
    return (up.loss() - down.loss()) / (2 * step);
  }
};

// Are the gradients of attention the slopes of its result?
TEST(AttentionReference, GradientsAreTheSlopesOfTheResult) {
  for (const bool causal : {true, false}) {
    SmallAttention small;
    small.attention.causal = causal;
    std::vector<double> result(80), log_sum(40);
    small.for_queries([&](const AttentionRow& row) {
      const ResultRow found = attention_row(small.attention, row, small.operands());
      const auto first = static_cast<std::size_t>(row_place(row, 5, 4, 2));
      result[first] = found.values[0];
      result[first + 1] = found.values[1];
      log_sum[static_cast<std::size_t>((row.batch * 4 + row.head) * 5 + row.position)] =
          found.log_sum;
    });
    const GradientOperands operands{small.operands(), values(result), values(small.gradient),
                                    values(log_sum)};
    const AttentionRow query{1, 2, 3}, key{1, 1, 2};
    const auto q = query_gradient_row(small.attention, query, operands);
    const auto [k, v] = key_gradient_row(small.attention, key, operands);
    constexpr double tolerance = 1e-7;
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_NEAR(q[at], small.slope(&SmallAttention::q, row_place(query, 5, 4, 3) + i), tolerance);
      EXPECT_NEAR(k[at], small.slope(&SmallAttention::k, row_place(key, 5, 2, 3) + i), tolerance);
      if (i == 2) break;  // values have two columns
      EXPECT_NEAR(v[at], small.slope(&SmallAttention::v, row_place(key, 5, 2, 2) + i), tolerance);
    }
  }
}

// Does rounding go to the nearest value, and for ties to the even one?
TEST(NumberFormats, RoundsToNearestTiesToEven) {
  EXPECT_EQ(rounded(DataType::Bf16, 1.0 + 0x1p-8), 1.0);               // halfway, down to even
  EXPECT_EQ(rounded(DataType::Bf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // halfway, up to even
  EXPECT_EQ(rounded(DataType::Bf16, -1.004), -1.0078125);
  EXPECT_EQ(rounded(DataType::Fp16, 1.0 / 3.0), 0.333251953125);
  EXPECT_EQ(rounded(DataType::Tf32, 1.0 / 3.0), 0.333251953125);
  EXPECT_EQ(rounded(DataType::Fp32, 0.1), static_cast<double>(0.1F));
  EXPECT_EQ(rounded(DataType::Fp8, 0.3), 0.3125);
  EXPECT_EQ(rounded(DataType::Fp8, 0.0), 0.0);
}

// Do small values lose their fraction in formats with few bits?
TEST(NumberFormats, SmallValuesLoseTheirFraction) {
  EXPECT_EQ(rounded(DataType::Fp8, 0x1p-9), 0x1p-9);  // the smallest value of E4M3
  EXPECT_EQ(rounded(DataType::Fp8, 0x1p-10), 0.0);    // halfway to zero, which is even
  EXPECT_EQ(rounded(DataType::Fp8, 0x1.8p-10), 0x1p-9);
  EXPECT_EQ(rounded(DataType::Fp16, 0x1p-24), 0x1p-24);
}

// Do large values saturate?
TEST(NumberFormats, LargeValuesSaturate) {
  EXPECT_EQ(rounded(DataType::Fp8, 1000.0), 448.0);
  EXPECT_EQ(rounded(DataType::Fp8, -1000.0), -448.0);
  EXPECT_EQ(rounded(DataType::Fp16, 1e6), 65504.0);
}

// Are stored bits decoded to their values?
TEST(NumberFormats, DecodesStoredBits) {
  EXPECT_EQ(decoded(DataType::Bf16, 0x3f80), 1.0);
  EXPECT_EQ(decoded(DataType::Bf16, 0xc049), -3.140625);
  EXPECT_EQ(decoded(DataType::Fp16, 0x3555), 0.333251953125);
  EXPECT_EQ(decoded(DataType::Fp16, 0x0001), 0x1p-24);
  EXPECT_EQ(decoded(DataType::Fp8, 0x7e), 448.0);
  EXPECT_EQ(decoded(DataType::Fp8, 0x01), 0x1p-9);
  EXPECT_EQ(decoded(DataType::Fp32, 0x3dcccccd), static_cast<double>(0.1F));
  EXPECT_EQ(decoded(DataType::Tf32, 0x40490000), 3.140625);
  EXPECT_EQ(decoded(DataType::Bf16, 0xff80), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decoded(DataType::Fp8, 0xff)));
  EXPECT_TRUE(std::isnan(decoded(DataType::Bf16, 0x7fc0)));
}

// Does rounding keep every value that a 16-bit or 8-bit format can store?
TEST(NumberFormats, RoundingKeepsWhatCanBeStored) {
  for (const DataType dtype : {DataType::Bf16, DataType::Fp16, DataType::Fp8}) {
    const std::uint32_t count = dtype == DataType::Fp8 ? 256 : 65536;
    std::uint32_t values = 0;
    for (std::uint32_t bits = 0; bits < count; ++bits) {
      const double value = decoded(dtype, bits);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(rounded(dtype, value), value) << bits;
      ++values;
    }
    // Infinities and NaNs have the largest exponent; of the FP8 values only two are NaNs.
    const std::uint32_t others = dtype == DataType::Bf16 ? 256 : dtype == DataType::Fp16 ? 2048 : 2;
    EXPECT_EQ(values, count - others);
  }
}

}  // namespace
}  // namespace trainyard::reference
