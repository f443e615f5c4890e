// Random steps: for every layout the FLOPs are the model's, memory is freed, the shares fill the
// step, the graph is valid, and folding is exact.
#include <gtest/gtest.h>

#include "dice.hpp"
#include "models/architecture/flops.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "tests/models/architecture/step_flops.hpp"
#include "tests/models/lower/step.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr std::uint32_t kStepSample = 60;

Parallelism random_layout(Dice& dice) {
  Parallelism p;
  p.tensor = dice.one_of({1, 2, 4});
  p.sequence_parallel = dice.coin();
  p.pipeline = dice.one_of({1, 2, 3, 4});
  p.data = dice.one_of({1, 2, 3});
  p.interleave = p.pipeline > 1 ? dice.one_of({1, 1, 2, 3}) : 1;
  p.schedule = p.interleave > 1 ? "interleaved_1f1b" : dice.coin() ? "1f1b" : "gpipe";
  p.zero_stage = dice.one_of({0, 1});
  p.overlap_grad_reduce = dice.coin();
  p.overlap_param_gather = dice.coin();
  p.overlap_p2p = dice.coin();
  p.overlap_tensor = dice.coin();
  p.scatter_gather = dice.coin();
  p.bucket_parameters = dice.one_of({0, 100'000, 1'000'000});
  p.context = dice.one_of({1, 1, 2, 4});
  p.context_exchange =
      std::array{ContextExchange::Ring, ContextExchange::AllGather,
                 ContextExchange::Hierarchical}[static_cast<std::size_t>(dice.one_of({0, 1, 2}))];
  p.context_all_to_all = p.context > 1 ? 2 : 1;
  p.context_split = dice.coin() ? ContextSplit::Zigzag : ContextSplit::Contiguous;
  p.chunked_tensor = dice.coin();
  p.rank_order = dice.coin() ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp";
  return p;
}

TrainingPlan random_plan(std::uint32_t seed) {
  Dice dice(seed);
  const Parallelism layout = random_layout(dice);
  const std::int64_t layers = layout.pipeline * layout.interleave * dice.one_of({1, 2});
  const Architecture model = dice.coin() ? small_gpt(layers) : small_llama(layers);
  TrainingPlan plan = plan_of(model, layout, layout.pipeline * dice.one_of({1, 2, 3}));
  plan.training.recompute =
      std::array{Recompute::None, Recompute::Selective,
                 Recompute::Full}[static_cast<std::size_t>(dice.one_of({0, 1, 2}))];
  plan.training.attention = layout.context > 1 ? AttentionKind::Flash : AttentionKind::Unfused;
  return with_rings(plan);
}

double machine(const Kernel& kernel) {
  return 1e-6 + std::max(flops(kernel).value() / 1e14, hbm_bytes(kernel).value() / 1e12);
}

// The FLOPs that the step must execute. Unfused attention multiplies the whole square, as in the
// formulas. The fused kernel of ranks that share a sequence computes the causal half, and all ranks
// together compute no more than one rank would.
double wanted_flops(const TrainingPlan& plan) {
  if (plan.parallelism.context > 1) {
    TrainingPlan alone = plan;
    alone.parallelism.context = 1;
    return executed_flops(lower(alone)).value();
  }
  const FlopsQuery query{.sequences = plan.training.global_batch_size,
                         .sequence_length = plan.training.sequence_length,
                         .vocab = plan.vocab(),
                         .attention = AttentionCount::Full};
  return (model_flops(plan.architecture, query) +
          recomputed_flops(plan.architecture, query, plan.training.recompute))
      .value();
}

class RandomStep : public ::testing::TestWithParam<std::uint32_t> {};

// Does a random step satisfy all invariants?
TEST_P(RandomStep, KeepsTheInvariants) {
  const TrainingPlan plan = random_plan(GetParam());
  const Workload workload = lower(plan);
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));

  EXPECT_NEAR(executed_flops(workload).value(), wanted_flops(plan), 1e-12 * wanted_flops(plan));

  const auto gpus = static_cast<std::uint32_t>(std::max<std::int64_t>(2, plan.world()));
  const auto shape = testing::Shape{.nodes = 1, .gpus = gpus, .launch_us = 3.0, .intra_us = 1.5};
  const Cluster cluster = testing::make_cluster(shape);
  const AlgorithmModel communication(cluster);
  const auto run = [&](bool folded) {
    return replay_on(testing::make_cluster(shape), workload, communication, machine,
                     {.engine = "simgrid", .fold = folded});
  };
  const Step step = run(true);
  const double time = step.timeline.makespan_s;
  for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
    const Breakdown shares = breakdown(step.workload, step.partition, step.timeline, rank);
    EXPECT_NEAR(shares.total(), time, 1e-9 * time);
    const auto curve = memory_curve(step.workload, step.partition, step.timeline, rank);
    EXPECT_EQ(curve.front().by_category, curve.back().by_category);
    for (const MemoryPoint& point : curve) {
      for (const std::int64_t bytes : point.by_category) EXPECT_GE(bytes, 0);
    }
  }
  EXPECT_NEAR(run(false).timeline.makespan_s, time, 1e-9 * time);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStep, ::testing::Range(0U, seeds(kStepSample)));

}  // namespace
}  // namespace trainyard
