// Properties of the cost of fused attention.
#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include "kernels/gpu.hpp"
#include "kernels/roofline.hpp"

namespace trainyard {
namespace {

// Is the time of attention never below the roofline, and does it grow with the work?
TEST(Attention, NeverBeatsTheRooflineAndGrowsWithTheWork) {
  for (const char* name : {"a100_80gb", "h100", "b200"}) {
    const auto model = load_cost_model(name);
    const GpuSheet sheet = load_gpu_sheet(name);
    for (const std::int64_t sequence : {512, 1000, 2048, 5000, 16384, 65536})
      for (const std::int64_t heads : {1, 12, 32, 100, 512})
        for (const bool backward : {false, true}) {
          Attention a = table_attention(sequence, heads, 128);
          a.backward = backward;
          const Seconds time = model->cost(a).time;
          EXPECT_GE(time, roofline(flops(a), hbm_bytes(a), sheet.bf16, sheet.hbm)) << to_text(a);
          Attention longer = table_attention(sequence * 2, heads, 128);
          longer.backward = backward;
          EXPECT_GT(model->cost(longer).time, time) << to_text(a);
          Attention wider = table_attention(sequence, heads * 2, 128);
          wider.backward = backward;
          EXPECT_GE(model->cost(wider).time, time * 0.97) << to_text(a);
        }
  }
}

// Is attention in 8 bits quicker by its share of the doubled peak rate? 8 bits reach 0.81 of the
// share of the peak that 16 bits reach.
TEST(Attention, EightBitsAreQuickerByTheirShareOfTwiceTheRate) {
  const AttentionModel model{.launch = Seconds{0}};
  const GpuSheet sheet = load_gpu_sheet("h100");
  Attention a = table_attention(8192, 64, 128);
  for (const bool backward : {false, true}) {
    a.backward = backward;
    a.dtype = DataType::Bf16;
    const double wide = attention_model_time(sheet, model, a).value();
    a.dtype = DataType::Fp8;
    const double ratio = sheet.peak(DataType::Fp8).value() / sheet.peak(DataType::Bf16).value();
    EXPECT_NEAR(wide / attention_model_time(sheet, model, a).value(), ratio * 0.81, 1e-9);
  }
}

// Does the backward take 2.5 times the work at its own rate?
TEST(Attention, BackwardTakesTwoAndAHalfTimesTheWorkAtItsOwnRate) {
  const AttentionModel model{
      .launch = Seconds{0}, .forward_efficiency = 0.5, .backward_relative = 0.8};
  const GpuSheet sheet = load_gpu_sheet("h100");
  Attention a = table_attention(8192, 64, 128);
  const Seconds forward = attention_model_time(sheet, model, a);
  EXPECT_NEAR(forward.value(), flops(a).value() / (0.5 * 989.4e12), 1e-12);
  a.backward = true;
  EXPECT_NEAR(attention_model_time(sheet, model, a) / forward, 2.5 / 0.8, 1e-9);
}

// Is attention with latent heads as slow as measured? With queries and keys of 192 and values of
// 128, a B200 took 735 us forward and 2 375 us backward for 128 heads of 4 096 positions
// (MooreThreads/SimuMax: 1 869 and 1 446 TFLOP/s, all pairs counted).
TEST(Attention, OfLatentHeadsIsAsSlowAsItWasMeasured) {
  Attention a = table_attention(4096, 128, 192);
  a.head_dim_v = 128;
  const auto model = load_cost_model("b200");
  EXPECT_NEAR(model->cost(a).time.value(), 735e-6, 0.05 * 735e-6);
  a.backward = true;
  EXPECT_NEAR(model->cost(a).time.value(), 2375e-6, 0.05 * 2375e-6);
  AttentionModel plain{.launch = Seconds{0}};
  const GpuSheet sheet = load_gpu_sheet("b200");
  const double before = attention_cost(sheet, plain, a).time.value();
  plain.latent_backward = 1.5;
  EXPECT_NEAR(attention_cost(sheet, plain, a).time.value(), 1.5 * before, 1e-12);
  a.head_dim_v = 192;
  EXPECT_NEAR(attention_cost(sheet, plain, a).time.value(),
              attention_cost(sheet, {.launch = Seconds{0}}, a).time.value(), 1e-12)
      << "equal sizes are what the tables are of";
}

// Is one head limited by its longest thread block?
TEST(Attention, OneHeadIsLimitedByItsLongestBlock) {
  const AttentionModel model{.launch = Seconds{0}, .forward_efficiency = 0.5};
  const GpuSheet sheet = load_gpu_sheet("h100");
  const Attention a = table_attention(4096, 1, 128);
  // The last 128 rows see all 4 096 keys on one of 132 SMs.
  const double longest = 2.0 * 128 * 4096 * 256 / (0.5 * 989.4e12 / 132);
  EXPECT_NEAR(attention_model_time(sheet, model, a).value(), longest, longest * 1e-9);
}

// Does the longest document set the time of few heads, and not the sequence that it is packed into?
TEST(Attention, TheLongestDocumentSetsTheTimeOfFewHeads) {
  const AttentionModel model{.launch = Seconds{0}, .forward_efficiency = 0.5};
  const GpuSheet sheet = load_gpu_sheet("h100");
  Attention a = table_attention(4096, 1, 128);
  a.pairs = 1024 * 1025 / 2 + 6 * (512 * 513 / 2);
  a.longest_keys = 1024;
  // 128 rows of the longest document see its 1 024 keys on one of 132 SMs.
  const double longest = 2.0 * 128 * 1024 * 256 / (0.5 * 989.4e12 / 132);
  EXPECT_NEAR(attention_model_time(sheet, model, a).value(), longest, longest * 1e-9);
}

// Are rectangular and packed attention priced by their rows and keys? Four documents packed into
// one sequence cost as four sequences. A step of ring attention, all queries against half the keys
// or half against all, costs about the causal square with the same number of pairs.
TEST(Attention, RectanglesAndDocumentsArePricedByRowsAndKeys) {
  for (const char* name : {"a100_80gb", "h100"}) {
    const auto model = load_cost_model(name);
    Attention packed = table_attention(8192, 32, 128);
    packed.pairs = 4 * (2048 * 2049 / 2);
    Attention separate = table_attention(2048, 32, 128);
    separate.batch = 4;
    EXPECT_NEAR(model->cost(packed).time / model->cost(separate).time, 1.0, 1e-9);
    EXPECT_EQ(model->cost(packed).provenance, Provenance::Extrapolated);

    const Seconds square = model->cost(table_attention(8192, 32, 128)).time;
    Attention earlier = table_attention(8192, 32, 128);
    earlier.kv_length /= 2;
    earlier.pairs = 8192 * 4096;
    earlier.causal = false;
    Attention later = earlier;
    std::swap(later.query_length, later.kv_length);
    EXPECT_NEAR(model->cost(earlier).time / square, 1.0, 0.1);
    EXPECT_NEAR(model->cost(later).time / square, 1.0, 0.1);
  }
}

// Does a cost report whether its shape is within the range of the fit?
TEST(Attention, KnowsWhatItWasFittedOn) {
  const auto model = load_cost_model("h100");
  const auto provenance = [&](const Attention& a) { return model->cost(a).provenance; };
  Attention a = table_attention(4096, 32, 128);
  EXPECT_EQ(provenance(a), Provenance::Interpolated);
  a.backward = true;
  EXPECT_EQ(provenance(a), Provenance::Extrapolated);
  EXPECT_EQ(provenance(table_attention(4096, 32, 96)), Provenance::Interpolated);
  EXPECT_EQ(provenance(table_attention(4096, 32, 32)), Provenance::Extrapolated);
  EXPECT_EQ(provenance(table_attention(131072, 32, 128)), Provenance::Extrapolated);
}

// Does attention on long sequences reach the published rates?
TEST(Attention, ReachesThePublishedRatesOnLongSequences) {
  // FlashAttention-2 on the A100 about 200 TFLOP/s, FlashAttention-3 on the H100 about 560 at 8 K
  // and head size 128, causal (Dao et al., arXiv 2307.08691 and 2407.08608, figures).
  const auto rate = [](const char* name) {
    const Attention a = table_attention(8192, 64, 128);
    return flops(a).value() / load_cost_model(name)->cost(a).time.value();
  };
  EXPECT_NEAR(rate("a100_80gb"), 200e12, 20e12);
  EXPECT_NEAR(rate("h100"), 560e12, 80e12);
}

}  // namespace
}  // namespace trainyard
