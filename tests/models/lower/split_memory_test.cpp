// The memory of a split backward between its input part and its weight part: inputs of GEMMs and
// gradients of their outputs; sequence-parallel ranks keep their own parts of both.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan split_plan(const std::string& model, const Parallelism& parallelism) {
  TrainingPlan plan;
  plan.architecture = load_architecture(model);
  plan.parallelism = parallelism;
  plan.collectives = plain_algorithms();
  plan.training.sequence_length = 2048;
  plan.training.global_batch_size = 4 * parallelism.pipeline;
  return plan;
}

// Is the memory of a layer that of Qi et al. 2401.10241, section 3: 32sbh of a GPT, of the 34sbh
// that its forward keeps?
TEST(SplitMemory, OfALayer) {
  for (const std::int64_t tensor : {1, 2, 4, 8}) {
    TrainingPlan plan =
        split_plan("gpt3-175b", {.tensor = tensor, .sequence_parallel = true, .pipeline = 8});
    const std::int64_t sbh = 2048L * 12'288L;
    EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).for_weights,
              32 * sbh / tensor);
    EXPECT_LT(layer_memory(memory_options(plan), dense_layer(plan.architecture)).for_weights,
              layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept);
    EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).weight_workspace,
              tensor == 1 ? 0 : 4 * sbh);
    plan.parallelism.sequence_parallel = false;
    EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).for_weights,
              8 * sbh + 24 * sbh / tensor);
    EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).weight_workspace,
              0);
  }
}

// Does a routed token keep both operands of its experts' weight gradients? With h = 256 and
// f = 128, the up-projection reads h and its gradient has 2f numbers, the down-projection reads f
// and its gradient has h numbers: 896 numbers of two bytes.
TEST(SplitMemory, OfARoutedToken) {
  const TrainingPlan plan = plan_of(small_moe(2), {.pipeline = 2}, 2);
  const MemoryOptions options = memory_options(plan);
  const LayerKind kind = moe_layer(plan.architecture);
  EXPECT_EQ(
      layer_memory(options, kind, 10).for_weights - layer_memory(options, kind, 0).for_weights,
      10 * 2 * (256 + 2 * 128 + 128 + 256));
}

// In addition to the resident memory, without the logits' gradients, which the last stage keeps for
// the head's weights.
std::int64_t most_activations(const TrainingPlan& plan) {
  const Step step = replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
    for (const MemoryPoint& point :
         memory_curve(step.workload, step.partition, step.timeline, rank)) {
      most = std::max(most, point.by_category[static_cast<std::size_t>(Category::Activations)]);
    }
  }
  return most;
}

// Is the memory a multiple of that of 1F1B? ZB-H1 needs as much, ZB-H2 twice, ZB-V as much; V-Half
// and V-Min need a half and a third, plus a little for pipelines as short as these.
// Sequence-parallel ranks that kept whole operands once had 2.6 times as much under ZB-H1 and 5.2
// under ZB-H2.
TEST(SplitMemory, IsAMultipleOf1F1B) {
  struct Multiple {
    std::string schedule;
    double most = 0.0;
  };
  for (const auto& [model, given] :
       {std::pair{"gpt3-175b", Parallelism{.tensor = 8, .sequence_parallel = true, .pipeline = 8}},
        std::pair{"llama3-70b", Parallelism{.tensor = 8, .sequence_parallel = true, .pipeline = 4}},
        std::pair{"gpt-22b", Parallelism{.tensor = 4, .sequence_parallel = true, .pipeline = 8}},
        std::pair{"llama3-8b", Parallelism{.pipeline = 8}}}) {
    TrainingPlan plan = split_plan(model, given);
    const auto plain = static_cast<double>(most_activations(plan));
    for (const Multiple& row :
         {Multiple{"zb_h1", 1.05}, Multiple{"zb_h2", 2.06}, Multiple{"zb_v", 1.05},
          Multiple{"v_half", 0.8}, Multiple{"v_min", 0.6}, Multiple{"dualpipe", 1.3},
          Multiple{"dualpipe_v", 1.3}}) {
      const bool two = row.schedule != "zb_h1" && row.schedule != "zb_h2";
      plan.parallelism.schedule = row.schedule;
      plan.parallelism.interleave = two ? 2 : 1;
      const double multiple = static_cast<double>(most_activations(plan)) / plain;
      EXPECT_LE(multiple, row.most) << model << " " << row.schedule;
      EXPECT_GE(multiple, 0.8 * row.most) << model << " " << row.schedule;
    }
  }
}

std::int64_t calls_named(const Workload& workload, std::string_view part) {
  std::int64_t calls = 0;
  for_each_operation(workload, workload.programs[1], [&](const OperationView& view) {
    if (view.op.kind == OpKind::Collective && view.name.find(part) != std::string_view::npos)
      ++calls;
  });
  return calls;
}

// Are inputs gathered once more for the weight part? They are gathered as often as without the
// split, but with the weight part; gradients of tensors that were scattered in the forward are
// gathered once more.
TEST(SplitMemory, IsGatheredAgainForTheWeights) {
  TrainingPlan plan =
      plan_of(small_llama(4), {.tensor = 2, .sequence_parallel = true, .pipeline = 4}, 8);
  const Workload whole = lower(plan);
  plan.parallelism.schedule = "zb_h1";
  const Workload split = lower(plan);
  EXPECT_EQ(calls_named(whole, "_input_all_gather"), 2 * 8);
  EXPECT_EQ(calls_named(split, "_input_all_gather"), 2 * 8);
  EXPECT_EQ(calls_named(whole, "_gradient_all_gather"), 2 * 8);
  EXPECT_EQ(calls_named(split, "_gradient_all_gather"), 2 * 2 * 8);
}

}  // namespace
}  // namespace trainyard
