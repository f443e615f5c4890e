// Experts after tensor ranks that all hold the same tokens: each rank sends a share of the rows,
// and the outputs are gathered (models/layers/expert_exchange.hpp).
#include <gtest/gtest.h>

#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

std::vector<Parallelism> duplicate_layouts() {
  return {{.tensor = 2, .data = 4, .expert = 4, .expert_tensor = 1},
          {.tensor = 2, .data = 4, .expert = 4, .expert_tensor = 2, .zero_stage = 1},
          {.tensor = 4, .data = 2, .expert = 8, .expert_tensor = 1, .zero_stage = 3},
          {.tensor = 2, .data = 2, .context = 2, .expert = 2, .expert_tensor = 1},
          {.tensor = 4, .data = 2, .expert_tensor = 4}};
}

// The sum over all calls of one program with this name.
std::int64_t bytes_of(const Workload& workload, std::string_view name) {
  std::int64_t bytes = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name == name) bytes += bytes_of(workload.calls[view.op.payload]);
  });
  return bytes;
}

// Are duplicate tokens dropped before and gathered after the experts? As many rows are sent as with
// sequence parallelism. In addition the tokens are gathered once in each direction, T h w and T (h
// w + 4K) per layer.
TEST(DuplicateTokens, AreDroppedBeforeAndGatheredAfter) {
  const Architecture model = small_moe(3);
  for (const Parallelism& layout : duplicate_layouts()) {
    const Workload all = lower(plan_of(model, layout, 1));
    Parallelism split = layout;
    split.sequence_parallel = true;
    const Workload shares = lower(plan_of(model, split, 1));
    for (const char* name : {"dispatch", "combine", "combine_backward", "dispatch_backward",
                             "expert_tensor_all_gather", "expert_tensor_gradient_reduce_scatter"})
      EXPECT_EQ(bytes_of(all, name), bytes_of(shares, name)) << name;
    const std::int64_t tokens = 128 / layout.context;
    EXPECT_EQ(bytes_of(all, "expert_output_all_gather"), 2 * tokens * 256 * 2);
    EXPECT_EQ(bytes_of(all, "expert_input_gradient_all_gather"), 2 * tokens * (256 * 2 + 4 * 2));
    EXPECT_EQ(bytes_of(shares, "expert_output_all_gather"), 0);
  }
}

// Are the bytes of one layer those of the formula?
TEST(DuplicateTokens, BytesOfOneLayer) {
  Architecture model = load_architecture("mixtral-8x7b");
  model.layers = 1;
  TrainingPlan plan = plan_of(model, {.tensor = 8, .expert = 8, .expert_tensor = 1}, 1);
  plan.training.sequence_length = 4096;
  const Workload workload = lower(plan);
  EXPECT_EQ(bytes_of(workload, "expert_output_all_gather"), 33'554'432);
  EXPECT_EQ(bytes_of(workload, "expert_input_gradient_all_gather"), 33'587'200);
  EXPECT_EQ(bytes_of(workload, "dispatch"), 4096 / 8 * 2 * (4096 * 2 + 4));
}

// Does only the router run on every rank? Every tensor rank scores all tokens, in the forward and
// for both gradients; everything else is done once.
TEST(DuplicateTokens, OnlyTheRouterRunsOnEveryRank) {
  for (const Parallelism& layout : duplicate_layouts()) {
    const TrainingPlan plan = plan_of(small_moe(3), layout, 2);
    Parallelism split = layout;
    split.sequence_parallel = true;
    const double once = executed_flops(lower(plan_of(small_moe(3), split, 2))).value();
    const double tokens = static_cast<double>(plan.training.global_batch_size * 128);
    const double router = 2.0 * 6.0 * tokens * 256.0 * 8.0;  // of both layers
    const double wanted = once + static_cast<double>(layout.tensor - 1) * router;
    EXPECT_NEAR(executed_flops(lower(plan)).value(), wanted, 1e-12 * wanted);
  }
}

// Is all memory freed, and do folded and unfolded runs agree, with even and uneven routing?
TEST(DuplicateTokens, MemoryComesBackAndFoldedIsUnfoldedBalancedOrNot) {
  for (const RoutingKind routing : {RoutingKind::Balanced, RoutingKind::Zipf}) {
    for (const Parallelism& layout : duplicate_layouts()) {
      TrainingPlan plan = plan_of(small_moe(3), layout, 2);
      plan.experts.routing = routing;
      const Step step = timed_step(plan);
      ASSERT_NO_THROW(validate(step.workload, ""));
      ASSERT_NO_THROW(check_progress(step.workload, ""));
      for (const Program& program : step.workload.programs)
        for (const std::int64_t bytes : unreturned_bytes(step.workload, program))
          EXPECT_EQ(bytes, 0);
      const double folded = step.timeline.makespan_s;
      EXPECT_NEAR(timed_step(plan, false).timeline.makespan_s, folded, 1e-9 * folded);
    }
  }
}

// Do experts keep the rows that they work on, as many as with sequence parallelism?
TEST(DuplicateTokens, ExpertsKeepWhatTheyWorkOn) {
  const auto kept = [](bool sequence_parallel, std::int64_t hidden_copies) {
    TrainingPlan plan =
        plan_of(small_moe(2), {.tensor = 2, .data = 4, .expert = 4, .expert_tensor = 1}, 1);
    plan.parallelism.sequence_parallel = sequence_parallel;
    const Step step = timed_step(plan);
    std::int64_t peak = 0;
    for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
      peak = std::max(peak, point.by_category[static_cast<std::size_t>(Category::Activations)]);
    return peak - hidden_copies;
  };
  // In addition the inputs and outputs of the norms of both layers, and the ends, are whole: per
  // token four residual tensors of a layer, the router's scores, and the input of the last norm and
  // of the head.
  const std::int64_t half = 128 / 2;
  const std::int64_t streams = half * ((2 * 4 + 2) * 256 * 2 + 4 * 8);
  EXPECT_EQ(kept(false, streams), kept(true, 0));
}

}  // namespace
}  // namespace trainyard
