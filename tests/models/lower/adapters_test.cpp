// Low-rank adapters: their parameters, the bytes of frozen weights, and that the step has no weight
// gradient of a frozen matrix (oracle 57).
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/architecture/flops.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "models/trained_weights.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

// Does Llama 3 have the published number of adapter parameters?
TEST(Adapters, ParametersOfLlama3) {
  const Architecture a = load_architecture("llama3-8b");
  Training training;
  EXPECT_EQ(adapter_parameters(a, training), 0);
  training.lora_rank = 16;
  EXPECT_EQ(adapter_parameters(a, training), 41'943'040);
  training.lora_rank = 8;
  training.lora_targets = flags_of(kAdapterTargets, {"query", "value"});
  EXPECT_EQ(adapter_parameters(a, training), 3'407'872);
}

// Are frozen weights in 4 bits counted with their quantisation constants?
TEST(Adapters, FourBitsAndTheirConstants) {
  Training training;
  EXPECT_EQ(frozen_bytes(training), 2.0);
  training.frozen_weights = FrozenFormat::Nf4;
  EXPECT_DOUBLE_EQ(frozen_bytes(training), 0.515869140625);
  EXPECT_NEAR(frozen_bytes(training) * 70.55e9, 36.39456787e9, 36.4);
}

TrainingPlan adapted(const Parallelism& parallelism) {
  TrainingPlan plan = plan_of(small_llama(4), parallelism, 2);
  plan.training.lora_rank = 8;
  return plan;
}

std::set<std::string> kernels(const TrainingPlan& plan) {
  std::set<std::string> names;
  const Workload workload = lower(plan);
  for_each_operation(workload, workload.programs[0],
                     [&](const OperationView& view) { names.emplace(view.name); });
  return names;
}

// Do frozen matrices have no weight gradient?
TEST(Adapters, FrozenMatricesHaveNoWeightGradient) {
  TrainingPlan plan = adapted({});
  std::set<std::string> names = kernels(plan);
  for (const char* frozen : {"qkv_wgrad", "projection_wgrad", "ffn_up_wgrad", "ffn_down_wgrad",
                             "head_wgrad", "embedding_backward", "qkv_dequantise"}) {
    EXPECT_FALSE(names.contains(frozen)) << frozen;
  }
  for (const char* there : {"qkv_dgrad", "query_adapter_in", "gate_adapter_out_wgrad",
                            "down_adapter_in_dgrad", "adam"}) {
    EXPECT_TRUE(names.contains(there)) << there;
  }
  plan.training.frozen_weights = FrozenFormat::Nf4;
  names = kernels(plan);
  EXPECT_TRUE(names.contains("qkv_dequantise"));
  EXPECT_FALSE(names.contains("head_dequantise"));
}

// Do the FLOPs count 4 per frozen and 6 per trained parameter? Forward and backward of frozen
// matrices are 4 per parameter and token, those of adapters 6.
TEST(Adapters, FlopsAreFourAndSix) {
  for (const Parallelism& parallelism :
       {Parallelism{}, Parallelism{.tensor = 2, .sequence_parallel = true, .data = 2}}) {
    const TrainingPlan plan = adapted(parallelism);
    const double sequences = static_cast<double>(plan.training.global_batch_size);
    const double tokens = sequences * 128.0;
    const double weights = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 512;
    const double core = 4.0 * 4.0 * sequences * (128.0 * 129.0 / 2.0) * 256.0;
    // Every tensor rank repeats the GEMMs of the undivided factor.
    double gemms = 0.0;
    for (const Adapter& adapter :
         layer_adapters(plan.architecture, plan.training, parallelism.tensor,
                        layer_kind(plan.architecture, 0)))
      gemms += static_cast<double>(adapter.parameters() * parallelism.tensor);
    const double wanted =
        4.0 * tokens * (4.0 * weights + 256.0 * 2048.0) + 3.5 * core + 6.0 * tokens * 4.0 * gemms;
    EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted);
  }
}

// Is the state 18 bytes per adapter parameter and 2 per frozen one, and is all memory freed?
TEST(Adapters, StateAndLeaks) {
  const TrainingPlan plan = adapted({});
  const Step step = replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
  const auto resident = resident_bytes(step.workload, step.workload.programs[0]);
  const std::int64_t trained = adapter_parameters(plan.architecture, plan.training);
  const std::int64_t frozen = parameter_count(plan.architecture);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)], 2 * (frozen + trained));
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)], 4 * trained);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::OptimizerState)], 12 * trained);
  for (const std::int64_t bytes : unreturned_bytes(step.workload, step.workload.programs[0]))
    EXPECT_EQ(bytes, 0);
}

// Adapters on the attention of layers with experts.

std::vector<TrainingPlan> adapted_experts() {
  const Parallelism divided{.data = 4, .expert = 4, .expert_tensor = 1};
  Parallelism sharded = divided;
  sharded.zero_stage = 3;
  Parallelism staged = divided;
  staged.pipeline = 2;
  staged.schedule = "zb_h1";
  std::vector<TrainingPlan> plans;
  for (const Parallelism& parallelism :
       {Parallelism{.expert_tensor = 1}, divided, sharded, staged}) {
    plans.push_back(plan_of(small_moe(4), parallelism, 4));
    plans.back().training.lora_rank = 8;
    plans.back().training.lora_targets = flags_of(kAdapterTargets, {"query", "value"});
  }
  return plans;
}

// Do experts stay frozen?
TEST(Adapters, ExpertsStayFrozen) {
  TrainingPlan plan = adapted_experts().front();
  std::set<std::string> names = kernels(plan);
  for (const char* frozen : {"expert_up_wgrad", "expert_down_wgrad", "router_wgrad",
                             "shared_up_wgrad", "shared_down_wgrad", "qkv_wgrad"})
    EXPECT_FALSE(names.contains(frozen)) << frozen;
  for (const char* there :
       {"expert_up_dgrad", "router_dgrad", "query_adapter_in", "value_adapter_out_wgrad"})
    EXPECT_TRUE(names.contains(there)) << there;
  plan.training.frozen_weights = FrozenFormat::Nf4;
  names = kernels(plan);
  for (const char* there : {"expert_up_gemm_dequantise", "expert_down_dgrad_dequantise",
                            "shared_up_dequantise", "qkv_dequantise"})
    EXPECT_TRUE(names.contains(there)) << there;
}

// Do the FLOPs count 4 and 6 in layers with experts too?
TEST(Adapters, FlopsBesideExpertsAreFourAndSix) {
  for (const TrainingPlan& plan : adapted_experts()) {
    const TokenFlops token =
        token_flops(plan.architecture,
                    {.sequence_length = plan.training.sequence_length + 1, .vocab = plan.vocab()});
    const double tokens = static_cast<double>(plan.training.global_batch_size * 128);
    const double trained =
        static_cast<double>(adapter_parameters(plan.architecture, plan.training));
    EXPECT_EQ(trained, 4 * 8 * (256 + 256 + 256 + 128));
    const double wanted = tokens * (2.0 * (token.linear() + token.projection + token.head) +
                                    3.5 * token.attention() + 6.0 * trained);
    EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted);
  }
}

// Are state and freed memory correct in layers with experts too?
TEST(Adapters, StateAndLeaksBesideExperts) {
  for (TrainingPlan plan : adapted_experts()) {
    const Workload workload = lower(plan);
    ASSERT_NO_THROW(validate(workload, ""));
    for (const Program& program : workload.programs)
      for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
  }
  const TrainingPlan plan = adapted_experts().front();
  const Workload workload = lower(plan);
  const auto resident = resident_bytes(workload, workload.programs[0]);
  const std::int64_t trained = adapter_parameters(plan.architecture, plan.training);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)],
            2 * (parameter_count(plan.architecture) + trained));
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)], 4 * trained);
}

// Do frozen experts keep no inputs? Token rows, the router's input and the tensors between the
// GEMMs of an expert and of the shared ones, which are 64 wide, are not read in the backward.
TEST(Adapters, FrozenExpertsKeepNoInputs) {
  const TrainingPlan plan = adapted_experts().front();
  TrainingPlan whole = plan;
  whole.training.lora_rank = 0;
  const std::int64_t rows = 128 * 2;
  const std::int64_t saved =
      layer_memory(memory_options(whole), moe_layer(whole.architecture), rows).kept -
      layer_memory(memory_options(plan), moe_layer(plan.architecture), rows).kept;
  EXPECT_EQ(saved, 2 * (rows * (256 + 128) + 128 * (256 + 64)) - 2 * 128 * 8 * 2);
}

// Are the factors that every tensor rank holds summed without sequence parallelism? Each rank has
// their gradients for its own columns. In fp32, of 4 layers, the factors of 256 x 8 before queries
// and values.
TEST(Adapters, ReplicatedFactorsAreSummed) {
  for (const bool sequence_parallel : {false, true}) {
    TrainingPlan plan =
        plan_of(small_llama(4), {.tensor = 2, .sequence_parallel = sequence_parallel}, 1);
    plan.training.lora_rank = 8;
    plan.training.lora_targets = flags_of(kAdapterTargets, {"query", "value"});
    const Workload workload = lower(plan);
    std::int64_t summed = 0;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == "norm_gradient_all_reduce")
        summed += bytes_of(workload.calls[view.op.payload]);
    });
    EXPECT_EQ(summed, 4 * 4 * 2 * 256 * 8) << sequence_parallel;
  }
}

}  // namespace
}  // namespace trainyard
