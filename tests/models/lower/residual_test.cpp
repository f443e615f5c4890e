// The cost of the residual connection around the blocks of a layer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "models/recompute.hpp"
#include "models/trained_weights.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

// The backwards of norms before blocks, with the sums of the block's gradient and the residual
// gradient.
Traffic norms_of(const TrainingPlan& plan) {
  const Workload step = lower(plan);
  const Traffic attention = traffic_of(step, "attention_norm_backward");
  const Traffic ffn = traffic_of(step, "ffn_norm_backward");
  return {attention.kernels + ffn.kernels, attention.bytes + ffn.bytes};
}

// Are the block's gradient and the residual gradient added? A norm's backward reads two tensors and
// writes one, and so does the sum: 2 bytes each, around attention and around the feed-forward block
// of 4 layers in 3 microbatches.
TEST(Residual, GradientsThatMeetAreAdded) {
  const TrainingPlan plan = plan_of(small_llama(4), {}, 3);
  const std::int64_t stream = 2 * plan.training.sequence_length * plan.architecture.hidden;
  EXPECT_EQ(norms_of(plan), (Traffic{2 * 4 * 3, 2 * 4 * 3 * (3 + 3) * stream}));
}

// Is a split sequence added in parts?
TEST(Residual, ASplitSequenceIsAddedInParts) {
  TrainingPlan plan = plan_of(small_llama(4), {.tensor = 2, .sequence_parallel = false}, 3);
  const Traffic whole = norms_of(plan);
  plan.parallelism.sequence_parallel = true;
  EXPECT_EQ(norms_of(plan), (Traffic{whole.kernels, whole.bytes / 2}));
}

// Is the gradient added once in a backward of two parts? Weight gradients that run later add
// nothing.
TEST(Residual, IsAddedOnceInABackwardOfTwoParts) {
  const TrainingPlan one = plan_of(small_llama(4), {.pipeline = 2}, 4);
  TrainingPlan two = one;
  two.parallelism.schedule = "zb_h1";
  EXPECT_EQ(norms_of(two), norms_of(one));
}

Architecture with_post_norms(Architecture model) {
  model.post_norms = true;
  return model;
}

Traffic post_norms_of(const Workload& step, const std::string& way) {
  const Traffic attention = traffic_of(step, "attention_post_norm" + way);
  const Traffic ffn = traffic_of(step, "ffn_post_norm" + way);
  return {attention.kernels + ffn.kernels, attention.bytes + ffn.bytes};
}

// Are post-norms kernels before the sums? Two more norms in each of 4 layers and 3 microbatches: 2
// reads or writes of 2 bytes per number forward, 3 backward. Their input has no residual
// connection, so no gradient is added.
TEST(PostNorms, AreKernelsBeforeTheSums) {
  TrainingPlan plan = plan_of(with_post_norms(small_llama(4)), {.tensor = 2}, 3);
  const std::int64_t stream = 2 * plan.training.sequence_length * plan.architecture.hidden;
  for (const bool split : {false, true}) {
    plan.parallelism.sequence_parallel = split;
    const Workload step = lower(plan);
    const std::int64_t own = split ? stream / 2 : stream;
    EXPECT_EQ(post_norms_of(step, ""), (Traffic{2 * 4 * 3, 2 * 4 * 3 * 2 * own})) << split;
    EXPECT_EQ(post_norms_of(step, "_backward"), (Traffic{2 * 4 * 3, 2 * 4 * 3 * 3 * own})) << split;
    EXPECT_EQ(norms_of(plan), (Traffic{2 * 4 * 3, 2 * 4 * 3 * (3 + 3) * own})) << split;
  }
}

// Do post-norms keep their inputs? The inputs of both are kept, 2sbh bytes each, divided by the
// tensor ranks if the sequence is; full recomputation keeps none of them and runs the norms once
// more.
TEST(PostNorms, KeepTheirInputs) {
  TrainingPlan plan = plan_of(small_llama(4), {.tensor = 2}, 1);
  const auto kept = [&](bool post_norms) {
    plan.architecture.post_norms = post_norms;
    return layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept;
  };
  const std::int64_t stream = 2 * plan.training.sequence_length * plan.architecture.hidden;
  plan.parallelism.sequence_parallel = true;
  EXPECT_EQ(kept(true) - kept(false), 2 * stream / 2);
  plan.parallelism.sequence_parallel = false;
  EXPECT_EQ(kept(true) - kept(false), 2 * stream);
  plan.training.recompute = Recompute::Selective;
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"core_attn", "layernorm", "mlp"});
  EXPECT_EQ(kept(true) - kept(false), 2 * stream);
  plan.training.recompute = Recompute::Full;
  EXPECT_EQ(kept(true), kept(false));
  EXPECT_EQ(post_norms_of(lower(plan_of(with_post_norms(small_llama(4)), {}, 1)), "").kernels, 8);
  plan.architecture.post_norms = true;
  EXPECT_EQ(post_norms_of(lower(plan), "").kernels, 2 * 2 * 4);
}

// Do post-norms need the last GEMM? Checkpointing by operation recomputes everything except the
// last GEMM, which the norm after it reads; compiled, it was not kept before. A framework whose
// recomputation stops where nothing more is kept continues up to that norm.
TEST(PostNorms, NeedTheLastProduct) {
  TrainingPlan plan = plan_of(small_llama(4), {}, 1);
  plan.training.recompute = Recompute::Selective;
  plan.training.recompute_modules = flags_of(kRecomputeModules, {"every_second_gemm"});
  plan.elementwise_kernels.compiled = true;
  const std::int64_t stream = 2 * plan.training.sequence_length * plan.architecture.hidden;
  const std::int64_t before =
      layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept;
  plan.architecture.post_norms = true;
  EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept,
            before + stream);

  plan.training.recompute = Recompute::Full;
  plan.elementwise_kernels.recompute_stops_early = true;
  const Workload step = lower(plan);
  EXPECT_EQ(traffic_of(step, "ffn_post_norm").kernels, 2 * 4);
  EXPECT_EQ(traffic_of(step, "ffn_residual").kernels, 4);
}

// Are post-norms in every kind of step? The list of gradients and the backward agree in every kind
// of layer and part of a backward: lowering checks it, and that no GEMM is lost.
TEST(PostNorms, StandInEveryKindOfStep) {
  std::vector<TrainingPlan> plans;
  for (const Architecture& model :
       {small_llama(4), small_gpt(4), small_moe(4), with_latents(small_moe(4))}) {
    plans.push_back(plan_of(model, {.tensor = 2, .sequence_parallel = true}, 4));
    plans.push_back(plan_of(model, {.pipeline = 2, .schedule = "zb_h1"}, 4));
    for (const std::int64_t stage : {0, 1, 2, 3})
      plans.push_back(plan_of(model, {.data = 2, .zero_stage = stage}, 4));
  }
  plans.push_back(plan_of(small_llama(4), {.data = 2}, 4));
  plans.back().training.lora_rank = 8;
  plans.back().training.lora_targets = flags_of(kAdapterTargets, {"query", "down"});
  for (TrainingPlan& plan : plans) {
    const double flops = executed_flops(lower(plan)).value();
    plan.architecture.post_norms = true;
    const Workload step = lower(plan);
    EXPECT_EQ(executed_flops(step).value(), flops) << plan.architecture.name;
    EXPECT_EQ(post_norms_of(step, "_backward").kernels, post_norms_of(step, "").kernels);
  }
}

}  // namespace
}  // namespace trainyard
