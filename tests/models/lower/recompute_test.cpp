// What the backward pass computes again: units of layers by each method, modules by name, and that
// the run repeats exactly those kernels and holds exactly those bytes.
#include "models/recompute.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/lower/layer_memory.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

Training full(const std::string& method, std::int64_t layers) {
  Training training;
  training.recompute = Recompute::Full;
  training.recompute_method = method;
  training.recompute_num_layers = layers;
  return training;
}

TEST(RecomputeUnits, UniformGroupsBlockHeadsEverySoMany) {
  using Units = std::vector<RecomputeUnit>;
  EXPECT_EQ(recompute_units(full("uniform", 4), 10),
            (Units{{0, 4, true}, {4, 4, true}, {8, 2, true}}));
  EXPECT_EQ(recompute_units(full("block", 2), 4),
            (Units{{0, 1, true}, {1, 1, true}, {2, 1, false}, {3, 1, false}}));
  EXPECT_EQ(recompute_units(full("every", 2), 3),
            (Units{{0, 1, true}, {1, 1, false}, {2, 1, true}}));
  EXPECT_EQ(recompute_units(Training{}, 2), (Units{{0, 1, false}, {1, 1, false}}));
}

TrainingPlan one_rank(const Architecture& model) { return plan_of(model, Parallelism{}, 1); }

std::map<std::string, int> repeated(const TrainingPlan& plan) {
  std::map<std::string, int> names;
  const Workload workload = lower(plan);
  for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
    if (view.op.part == StepPart::Recompute) ++names[std::string(view.name)];
  });
  return names;
}

TEST(RecomputedModules, RunAgainKernelByKernel) {
  TrainingPlan plan = one_rank(small_llama(2));
  plan.training.recompute = Recompute::Selective;
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{{"attention", 2}}));
  plan.training.recompute_modules = {"layernorm"};
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{{"attention_norm", 2}, {"ffn_norm", 2}}));
  plan.training.recompute_modules = {"mlp"};
  EXPECT_EQ(repeated(plan), (std::map<std::string, int>{
                                {"ffn_up_gemm", 2}, {"ffn_activation", 2}, {"ffn_down_gemm", 2}}));
}

// The most that is held of activations, whatever else is.
std::int64_t activation_peak(const TrainingPlan& plan) {
  const Step step = replay(lower(plan), free_transport(), [](const Kernel&) { return 1e-3; });
  std::int64_t peak = 0;
  for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0)) {
    peak = std::max(peak, point.by_category[static_cast<std::size_t>(Category::Activations)]);
  }
  return peak;
}

// Reference 05 section 2: the norms' outputs are 4sbh, SwiGLU's tensors 6sbf.
TEST(RecomputedModules, KeepWhatTheFormulaSays) {
  TrainingPlan plan = one_rank(small_llama(4));
  const std::int64_t tokens = 128;
  const std::int64_t everything = layer_memory(plan).kept;
  EXPECT_EQ(everything, tokens * (8 * 256 + 4 * 256 + 4 * 128 + 6 * 512) + 4 * 16 * tokens);
  plan.training.recompute = Recompute::Selective;
  const auto kept = [&](std::vector<std::string> modules) {
    plan.training.recompute_modules = std::move(modules);
    return layer_memory(plan).kept;
  };
  EXPECT_EQ(kept({"core_attn"}), everything - 4 * 16 * tokens);
  EXPECT_EQ(kept({"layernorm"}), everything - 4 * 256 * tokens);
  EXPECT_EQ(kept({"mlp"}), everything - 6 * 512 * tokens);
  EXPECT_EQ(kept({"mlp", "layernorm"}), everything - (6 * 512 + 4 * 256) * tokens);
  EXPECT_EQ(layer_memory(plan).everything(), everything);
}

// Sixteen layers of which n share a checkpoint: their inputs, and one group's layers in full less
// its own input. Least at n = 4, the square root.
TEST(RecomputedLayers, UniformHoldsCheckpointsAndOneGroup) {
  TrainingPlan plan = one_rank(small_llama(16));
  const LayerMemory none = layer_memory(plan);
  const std::int64_t input = 2 * 128 * 256;
  const std::int64_t ids = activation_peak(plan) - 16 * none.kept;  // of the embedding
  EXPECT_GE(ids, 0);
  for (const std::int64_t n : {1, 2, 4, 8, 16}) {
    plan.training = full("uniform", n);
    plan.training.sequence_length = 128;
    const std::int64_t wanted = 16 / n * input + n * none.kept - input;
    const std::int64_t beside = activation_peak(plan) - wanted;
    EXPECT_GE(beside, 0) << n;
    EXPECT_LE(beside, 8 * 128 + 2 * input) << n << ": ids, and the inputs of final norm and head";
  }
}

// A whole layer again costs its forward; block and every leave the others alone.
TEST(RecomputedLayers, OnlyTheChosenRunAgain) {
  for (const auto& [method, layers] : {std::pair{"block", 3}, {"every", 2}}) {
    TrainingPlan plan = one_rank(small_llama(6));
    plan.training = full(method, layers);
    plan.training.sequence_length = 128;
    EXPECT_EQ(repeated(plan)["attention"], 3) << method;
    EXPECT_DOUBLE_EQ(recomputed_layer_share(plan), 0.5);
    for (const Program& program : lower(plan).programs) {
      std::int64_t left = 0;
      for (const MemoryEffect& effect : program.effects) left += effect.bytes;
      EXPECT_EQ(left, 0);
    }
  }
}

}  // namespace
}  // namespace trainyard
