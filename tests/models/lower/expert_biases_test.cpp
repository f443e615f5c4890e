// Biases and clamped activations of experts, and attention within a window: the kernels that
// GPT-OSS has in addition to those of other mixtures (models/layers/experts.cpp,
// attention_core.cpp).
#include <gtest/gtest.h>

#include <variant>

#include "models/architecture/flops.hpp"
#include "models/recompute.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"
#include "tests/models/architecture/step_flops.hpp"

namespace trainyard {
namespace {

using namespace test;

// One layer of GPT-OSS 120B on one GPU: 16 384 tokens, so 65 536 rows.
TrainingPlan gpt_oss_layer() {
  Architecture a = small_moe(1);
  a.name = "one layer of GPT-OSS 120B";
  a.hidden = 2880;
  a.heads = 64;
  a.kv_heads = 8;
  a.head_dim = 64;
  a.ffn = a.expert_ffn = 2880;
  a.vocab = 201088;
  a.max_positions = 131072;
  a.biases = true;
  a.experts = 128;
  a.experts_per_token = 4;
  a.shared_ffn = a.dense_layers = 0;
  a.clamped_experts = true;
  TrainingPlan plan = plan_of(a, {.expert_tensor = 1}, 1);
  plan.training.sequence_length = 4096;
  plan.training.micro_batch_size = 4;
  plan.training.global_batch_size = 4;
  plan.training.attention = AttentionKind::Flash;
  return plan;
}

std::int64_t memory_bytes_of(const Workload& workload, std::string_view name) {
  std::int64_t bytes = 0;
  const Program& program = workload.programs.front();
  for_each_operation(workload, program, [&](const OperationView& view) {
    if (view.name == name)
      bytes += std::get<MemoryBound>(workload.kernels[program.kernel_of(view.op)]).bytes;
  });
  return bytes;
}

std::int64_t attention_pairs_of(const Workload& workload) {
  std::int64_t pairs = 0;
  const Program& program = workload.programs.front();
  for_each_operation(workload, program, [&](const OperationView& view) {
    if (view.name == "attention")
      pairs += std::get<Attention>(workload.kernels[program.kernel_of(view.op)]).pairs;
  });
  return pairs;
}

// Are biases and clamps separate kernels, with the bytes of the header's example?
TEST(ExpertBiases, AreKernelsOfTheirOwn) {
  const Workload workload = lower(gpt_oss_layer());
  EXPECT_EQ(memory_bytes_of(workload, "expert_bias"), 5'284'823'040);
  EXPECT_EQ(memory_bytes_of(workload, "expert_bias_backward"), 7'549'747'200);
  EXPECT_EQ(memory_bytes_of(workload, "expert_clamp"), 3'019'898'880);
  EXPECT_EQ(memory_bytes_of(workload, "expert_clamp_backward"), 5'662'310'400);
  EXPECT_EQ(memory_bytes_of(workload, "expert_activation"), 3 * 2 * 65'536LL * 2880);
}

// Does a recomputed activation clamp once more, but add no bias?
TEST(ExpertBiases, RecomputedActivationsCutOffAgain) {
  TrainingPlan plan = gpt_oss_layer();
  plan.training.recompute = Recompute::Selective;
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"moe_act"});
  const Workload workload = lower(plan);
  EXPECT_EQ(memory_bytes_of(workload, "expert_clamp"), 2 * 3'019'898'880);
  EXPECT_EQ(memory_bytes_of(workload, "expert_bias"), 5'284'823'040);
}

// Do fused grouped GEMMs leave no separate kernels, with the same FLOPs?
TEST(ExpertBiases, FusedProductsLeaveNoneBeside) {
  TrainingPlan plan = gpt_oss_layer();
  const double flops = executed_flops(lower(plan)).value();
  plan.experts.gemms = ExpertGemms::Fused;
  const Workload fused = lower(plan);
  for (const char* name :
       {"expert_bias", "expert_bias_backward", "expert_clamp", "expert_clamp_backward",
        "expert_activation", "expert_activation_backward"})
    EXPECT_EQ(memory_bytes_of(fused, name), 0) << name;
  EXPECT_DOUBLE_EQ(executed_flops(fused).value(), flops);
}

// Do the GEMMs of attention have the precision of the recipe, or else that of the training?
TEST(ExpertBiases, AttentionIsAsWideAsTheRecipeSays) {
  TrainingPlan plan = gpt_oss_layer();
  const auto width = [&plan] {
    const Workload workload = lower(plan);
    DataType found = DataType::Fp32;
    for (const Kernel& kernel : workload.kernels)
      if (const auto* attention = std::get_if<Attention>(&kernel)) found = attention->dtype;
    return found;
  };
  EXPECT_EQ(width(), DataType::Bf16);
  plan.recipe = load_recipe("fp8_attention");
  EXPECT_EQ(width(), DataType::Fp8);
  plan.recipe = load_recipe("fp8_cached");
  EXPECT_EQ(width(), DataType::Bf16);
}

// Do models without biases have none of these kernels?
TEST(ExpertBiases, OtherMixturesHaveNone) {
  const Workload workload = lower(plan_of(small_moe(2), {.expert_tensor = 1}, 1));
  EXPECT_EQ(memory_bytes_of(workload, "expert_bias"), 0);
  EXPECT_EQ(memory_bytes_of(workload, "expert_clamp"), 0);
}

// Does a window reduce the computed pairs? They are w s - w (w-1)/2 in a layer with a window w, and
// s (s + 1)/2 in the others. s = 4096, w = 128: 516 160 and 8 390 656.
TEST(AttentionWindow, AlternatesWithFullAttention) {
  TrainingPlan plan = gpt_oss_layer();
  plan.architecture.layers = 4;
  plan.architecture.window = 128;
  EXPECT_EQ(attention_pairs_of(lower(plan)), 4 * 516'160);
  plan.architecture.full_attention_every = 2;
  EXPECT_EQ(attention_pairs_of(lower(plan)), 2 * 516'160 + 2 * 8'390'656);
  plan.architecture.full_attention_every = 3;
  EXPECT_EQ(attention_pairs_of(lower(plan)), 3 * 516'160 + 8'390'656);
  plan.architecture.window = 5000;  // wider than the sequence
  EXPECT_EQ(attention_pairs_of(lower(plan)), 4 * 8'390'656);
}

// Do FLOPs count these pairs? Per token of s = 4096 and 64 heads of 64: causal layers count 2 s (q
// + o)/2, windowed ones 2 (q + o)(w - w^2/2s), which are their pairs except for half of the
// diagonal, as in s^2/2.
TEST(AttentionWindow, FlopsCountThePairs) {
  Architecture a = gpt_oss_layer().architecture;
  a.layers = 2;
  a.window = 128;
  a.full_attention_every = 2;
  const TokenFlops token = token_flops(a, {.sequence_length = 4096, .vocab = a.vocab});
  const double windowed = token.layers[0].attention;
  const double full = token.layers[1].attention;
  EXPECT_DOUBLE_EQ(full, 2.0 * 4096 * 8192 / 2);
  EXPECT_NEAR(windowed, 2.0 * 8192 * (128.0 - 128.0 * 128.0 / 2.0 / 4096.0), 1e-6);
  EXPECT_DOUBLE_EQ(token.attention(), full + windowed);
}

// Does the full convention count the whole window for each query, also for those at the beginning?
TEST(AttentionWindow, FullConventionCountsTheWholeWindow) {
  Architecture a = gpt_oss_layer().architecture;
  a.window = 128;
  const TokenFlops token = token_flops(
      a, {.sequence_length = 4096, .vocab = a.vocab, .attention = AttentionCount::Full});
  EXPECT_DOUBLE_EQ(token.layers.front().attention, 2.0 * 8192 * 128.0);
}

// Does a window of the whole sequence count as none? Llama-3 8B at 8192 tokens once had an MFU of
// 48.5 % with a window of 8192 and of 62.3 % without.
TEST(AttentionWindow, OfTheWholeSequenceCountsAsNone) {
  const Architecture none = load_architecture("llama3-8b");
  Architecture whole = none;
  for (const std::int64_t window : {8192, 9000}) {
    whole.window = window;
    for (const AttentionCount convention : {AttentionCount::Causal, AttentionCount::Full}) {
      const FlopsQuery query{
          .sequences = 4, .sequence_length = 8192, .vocab = none.vocab, .attention = convention};
      EXPECT_DOUBLE_EQ(model_flops(whole, query).value(), model_flops(none, query).value());
    }
  }
}

}  // namespace
}  // namespace trainyard
