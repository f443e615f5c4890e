// The bytes that the element-wise operations of a layer move if they are separate kernels.
#include <gtest/gtest.h>

#include "models/architecture/memory.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "models/recompute.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kBf16 = 2;

TrainingPlan plan_with(const char* framework, bool compiled) {
  TrainingPlan plan = plan_of(small_llama(kLayers), {}, 1);
  plan.training.compiled = compiled;
  plan.elementwise_kernels = load_elementwise_kernels(framework, compiled);
  return plan;
}

std::int64_t stream_of(const TrainingPlan& plan) {
  return plan.training.sequence_length * plan.architecture.hidden;
}

std::int64_t operations_of(const Workload& step, std::string_view name) {
  std::int64_t found = 0;
  for_each_operation(step, step.programs.front(),
                     [&](const OperationView& view) { found += view.name == name ? 1 : 0; });
  return found;
}

// Do eager norms move 36 bytes per number forward and 92 backward?
TEST(ElementwiseKernels, EagerNormsMoveThirtySixBytesForwardAndNinetyTwoBack) {
  const TrainingPlan plan = plan_with("pytorch", false);
  const Workload step = lower(plan);
  EXPECT_EQ(traffic_of(step, "ffn_norm"), (Traffic{kLayers, kLayers * 36 * stream_of(plan)}));
  EXPECT_EQ(traffic_of(step, "final_norm_backward"), (Traffic{1, 92 * stream_of(plan)}));
  // With the sum of the residual gradient: 6 more.
  EXPECT_EQ(traffic_of(step, "ffn_norm_backward"),
            (Traffic{kLayers, kLayers * 98 * stream_of(plan)}));
}

// Are keys and values written once for every query head? 16 heads of 16 from 8: keys and values,
// 128 wide, become 256; the gradients the other way.
TEST(ElementwiseKernels, KeysAndValuesAreWrittenForEveryQueryHead) {
  TrainingPlan plan = plan_with("pytorch", false);
  const std::int64_t bytes = kLayers * kBf16 * plan.training.sequence_length * 2 * (128 + 256);
  EXPECT_EQ(traffic_of(lower(plan), "repeat_heads"), (Traffic{kLayers, bytes}));
  EXPECT_EQ(traffic_of(lower(plan), "repeat_heads_backward"), (Traffic{kLayers, bytes}));
  plan.architecture.kv_heads = plan.architecture.heads;
  EXPECT_EQ(traffic_of(lower(plan), "repeat_heads"), Traffic{});
}

// Are the input gradients of separate GEMMs added? Three gradients of one input are two sums of 3
// numbers, or one compiled kernel over 4 numbers; two gradients are one sum in both cases.
TEST(ElementwiseKernels, InputGradientsOfSeparateProductsAreAdded) {
  for (const bool compiled : {false, true}) {
    const TrainingPlan plan = plan_with("pytorch", compiled);
    const Workload step = lower(plan);
    const std::int64_t numbers = kLayers * kBf16 * stream_of(plan);
    EXPECT_EQ(traffic_of(step, "qkv_gradient_add"),
              (Traffic{kLayers, numbers * (compiled ? 4 : 6)}));
    EXPECT_EQ(traffic_of(step, "ffn_up_gradient_add"), (Traffic{kLayers, numbers * 3}));
  }
  EXPECT_EQ(traffic_of(lower(plan_with("megatron", false)), "qkv_gradient_add"), Traffic{});
}

// Does a compiled layer move fewer bytes?
TEST(ElementwiseKernels, CompiledALayerMovesLess) {
  const Workload eager = lower(plan_with("pytorch", false));
  const Workload compiled = lower(plan_with("pytorch", true));
  for (const char* name : {"attention_norm", "attention_norm_backward", "ffn_activation",
                           "ffn_activation_backward", "qkv_gradient_add"}) {
    EXPECT_GT(traffic_of(eager, name).bytes, traffic_of(compiled, name).bytes) << name;
  }
  EXPECT_EQ(traffic_of(eager, "rope"), traffic_of(compiled, "rope"));
}

// Are queries and keys turned only where the model has rotary positions?
TEST(ElementwiseKernels, AModelWithoutPositionsTurnsNoQueriesAndKeys) {
  TrainingPlan plan = plan_with("pytorch", false);
  EXPECT_EQ(traffic_of(lower(plan), "rope").kernels, kLayers);
  plan.architecture.positions = Positions::None;
  EXPECT_EQ(traffic_of(lower(plan), "rope"), Traffic{});
  EXPECT_EQ(traffic_of(lower(plan), "position_embedding"), Traffic{});
}

// Do metrics read the logits once more? Each metric casts a logit (2 + 4) and takes its log_softmax
// (read three times, written once).
TEST(ElementwiseKernels, MetricsReadTheLogitsAgain) {
  const TrainingPlan plan = plan_with("composer", false);
  const std::int64_t logits = plan.training.sequence_length * plan.vocab();
  EXPECT_EQ(traffic_of(lower(plan), "loss_metrics"), (Traffic{1, 2 * (6 + 16) * logits}));
  EXPECT_EQ(traffic_of(lower(plan_with("pytorch", false)), "loss_metrics"), Traffic{});
}

// Are the gradients of one packed GEMM copied together?
TEST(ElementwiseKernels, GradientsOfOnePackedProductAreCopiedTogether) {
  const TrainingPlan plan = plan_with("composer", false);
  const std::int64_t width = 256 + 2 * 128;
  EXPECT_EQ(traffic_of(lower(plan), "qkv_gradient_join"),
            (Traffic{kLayers, kLayers * 2 * kBf16 * plan.training.sequence_length * width}));
}

// Is a gathered sequence copied and kept? It is gathered before the GEMMs of two inputs per layer
// and before the head, and so are the gradients of its two outputs; it is scattered as often in the
// other direction. Each copy reads and writes the message.
TEST(ElementwiseKernels, AGatheredSequenceIsCopiedAndKept) {
  TrainingPlan plan = plan_with("pytorch", false);
  plan.parallelism = {.tensor = 2, .sequence_parallel = true};
  const Workload step = lower(plan);
  const std::int64_t copy = 2 * kBf16 * stream_of(plan);
  for (const char* name : {"attention_all_gather_copy", "attention_join_copy", "ffn_join_copy",
                           "ffn_down_gradient_all_gather_copy", "qkv_dgrad_reduce_scatter_copy"}) {
    EXPECT_EQ(traffic_of(step, name), (Traffic{kLayers, kLayers * copy})) << name;
  }
  EXPECT_EQ(operations_of(step, "qkv_input_all_gather"), 0);
  plan.elementwise_kernels = {};
  const Workload fused = lower(plan);
  EXPECT_EQ(operations_of(fused, "qkv_input_all_gather"), kLayers);
  EXPECT_EQ(operations_of(fused, "attention_join_copy"), 0);
  plan.elementwise_kernels.keeps_gathered = true;
  const Architecture& a = plan.architecture;
  const LayerActivations kept = layer_activations(a, layer_kind(a, 0), memory_options(plan).query);
  plan.elementwise_kernels.keeps_gathered = false;
  const LayerActivations parts = layer_activations(a, layer_kind(a, 0), memory_options(plan).query);
  EXPECT_EQ(kept.total() - parts.total(), 2 * kBf16 * stream_of(plan) / 2);
}

// Does recomputation end before the last GEMM of a layer? Nothing keeps its output. If two layers
// are recomputed together, the second one needs the output of the first.
TEST(ElementwiseKernels, RecomputationEndsBeforeTheLastProduct) {
  TrainingPlan plan = plan_with("pytorch", false);
  plan.training.recompute = Recompute::Full;
  EXPECT_EQ(operations_of(lower(plan), "ffn_up_gemm"), 2 * kLayers);
  EXPECT_EQ(operations_of(lower(plan), "ffn_down_gemm"), kLayers);
  EXPECT_EQ(operations_of(lower(plan), "ffn_residual"), kLayers);
  plan.training.recompute_num_layers = 2;
  EXPECT_EQ(operations_of(lower(plan), "ffn_down_gemm"), 2 * kLayers);
  EXPECT_EQ(operations_of(lower(plan_with("megatron", false)), "ffn_down_gemm"), kLayers);
}

// Do separate kernels keep more than fused ones? The difference is the fp32 copy of each norm's
// input (4 bytes), the gate's silu (2), and keys and values for every query head (2 each).
TEST(ElementwiseKernels, SeparateKernelsKeepMore) {
  const TrainingPlan eager = plan_with("pytorch", false);
  const TrainingPlan fused = plan_with("megatron", false);
  const Architecture& a = eager.architecture;
  const LayerActivations more = layer_activations(a, layer_kind(a, 0), memory_options(eager).query);
  const LayerActivations less = layer_activations(a, layer_kind(a, 0), memory_options(fused).query);
  const std::int64_t tokens = eager.training.sequence_length;
  EXPECT_EQ(more.norms - less.norms, 2 * 4 * tokens * a.hidden);
  EXPECT_EQ(more.ffn - less.ffn, kBf16 * tokens * a.ffn);
  EXPECT_EQ(more.attention - less.attention, 2 * kBf16 * tokens * (a.query_width() - a.kv_width()));
}

// Is the last GEMM of a compiled layer not kept? In eager mode the policy keeps the output of every
// second GEMM, whether it is read in the backward or not.
TEST(ElementwiseKernels, CompiledTheLastProductOfALayerIsNotKept) {
  TrainingPlan eager = plan_with("pytorch", false);
  eager.training.recompute = Recompute::Selective;
  eager.training.recompute_modules = flags_of(kRecomputeModules, {"every_second_gemm"});
  TrainingPlan compiled = eager;
  compiled.training.compiled = true;
  compiled.elementwise_kernels = load_elementwise_kernels("pytorch", true);
  EXPECT_EQ(layer_memory(memory_options(eager), dense_layer(eager.architecture)).kept -
                layer_memory(memory_options(compiled), dense_layer(compiled.architecture)).kept,
            kBf16 * stream_of(eager));
}

}  // namespace
}  // namespace trainyard
