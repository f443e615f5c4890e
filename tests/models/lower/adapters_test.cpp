// Low-rank adapters: their parameters, the bytes of what is frozen, and that the step runs no
// weight gradient of a frozen matrix (oracle 57).
#include "models/adapters.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/lower/layer_memory.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TEST(Adapters, ParametersOfLlama3) {
  const Architecture a = load_architecture("llama3-8b");
  Training training;
  EXPECT_EQ(adapter_parameters(a, training), 0);
  training.lora_rank = 16;
  EXPECT_EQ(adapter_parameters(a, training), 41'943'040);
  training.lora_rank = 8;
  training.lora_targets = {"query", "value"};
  EXPECT_EQ(adapter_parameters(a, training), 3'407'872);
}

TEST(Adapters, FourBitsAndTheirConstants) {
  Training training;
  EXPECT_EQ(frozen_bytes(training), 2.0);
  training.frozen_weights = "nf4";
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
  plan.training.frozen_weights = "nf4";
  names = kernels(plan);
  EXPECT_TRUE(names.contains("qkv_dequantise"));
  EXPECT_FALSE(names.contains("head_dequantise"));
}

// Forward and backward of the frozen ones 4 per parameter and token, of the adapters 6.
TEST(Adapters, FlopsAreFourAndSix) {
  for (const Parallelism& parallelism :
       {Parallelism{}, Parallelism{.tensor = 2, .sequence_parallel = true, .data = 2}}) {
    const TrainingPlan plan = adapted(parallelism);
    const double sequences = static_cast<double>(plan.training.global_batch_size);
    const double tokens = sequences * 128.0;
    const double weights = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 512;
    const double core = 4.0 * 4.0 * sequences * (128.0 * 129.0 / 2.0) * 256.0;
    // On tensor ranks the undivided factor's products are repeated by each of them.
    double products = 0.0;
    for (const Adapter& adapter :
         layer_adapters(plan.architecture, plan.training, parallelism.tensor))
      products += static_cast<double>(adapter.parameters() * parallelism.tensor);
    const double wanted = 4.0 * tokens * (4.0 * weights + 256.0 * 2048.0) + 3.5 * core +
                          6.0 * tokens * 4.0 * products;
    EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted);
  }
}

// The state is 18 bytes of each adapter's parameter and 2 of each frozen one; all comes back.
TEST(Adapters, StateAndLeaks) {
  const TrainingPlan plan = adapted({});
  const Step step = replay(lower(plan), free_transport(), [](const Kernel&) { return 1e-3; });
  const auto resident = resident_bytes(step.workload, step.workload.programs[0]);
  const std::int64_t trained = adapter_parameters(plan.architecture, plan.training);
  const std::int64_t frozen = parameter_count(plan.architecture);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Weights)], 2 * (frozen + trained));
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::Gradients)], 4 * trained);
  EXPECT_EQ(resident[static_cast<std::size_t>(Category::OptimizerState)], 12 * trained);
  for (const std::int64_t bytes : unreturned_bytes(step.workload, step.workload.programs[0]))
    EXPECT_EQ(bytes, 0);
}

}  // namespace
}  // namespace trainyard
