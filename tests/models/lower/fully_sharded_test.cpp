// Fully sharded weights: what overlaps with what, how much is whole at a time, and that all memory
// is freed (PyTorch torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py; oracles 45, 60, 82).
#include <gtest/gtest.h>

#include <numeric>

#include "models/lower/data_parallel/bucketed.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/options.hpp"
#include "same_program.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"
#include "tests/models/architecture/stage_shard.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan sharded_plan(const Parallelism& parallelism, std::int64_t microbatches = 1) {
  return plan_of(small_llama(4), parallelism, microbatches);
}

std::int64_t layer_bytes(const TrainingPlan& plan, std::int64_t element) {
  std::int64_t sum = 0;
  for (const GradientEntry& entry :
       layer_entries(weight_options(plan).division, dense_layer(plan.architecture)))
    sum += entry.parameters();
  return sum * element;
}

struct Durations {
  double gather = 0.0;
  double reduce = 0.0;
  double forward = 0.0;
  double backward = 0.0;
};

// Only the groups of layers take time, not the root.
double sharded_makespan(const TrainingPlan& plan, const Durations& seconds) {
  const std::int64_t gathered = layer_bytes(plan, 2);
  const std::int64_t reduced = layer_bytes(plan, 4);
  const CallModel communication([=](const Call& call) {
    if (op_of(call) == CollectiveOp::AllGather && bytes_of(call) == gathered) return seconds.gather;
    if (op_of(call) == CollectiveOp::ReduceScatter && bytes_of(call) == reduced)
      return seconds.reduce;
    return 0.0;
  });
  return replay(lower(plan), communication, core_seconds(seconds.forward, seconds.backward))
      .timeline.makespan_s;
}

// Is the forward g + L F if a gather is hidden, and L g + F if it is not (oracle 45)?
TEST(FullySharded, Forward) {
  TrainingPlan plan =
      sharded_plan({.data = 2, .zero_stage = 3, .reshard_after_forward = Reshard::Never});
  for (const std::int64_t ahead : {0, 1, 2}) {
    plan.parallelism.forward_prefetch = ahead;
    EXPECT_DOUBLE_EQ(sharded_makespan(plan, {.gather = 1.0, .forward = 2.0}), 9.0);
    EXPECT_DOUBLE_EQ(sharded_makespan(plan, {.gather = 3.0, .forward = 2.0}), 14.0);
  }
}

// Does the backward expose only its first gather and its last reduction? It follows a forward of L
// gathers.
TEST(FullySharded, Backward) {
  TrainingPlan plan = sharded_plan({.data = 2, .zero_stage = 3});
  const Durations hidden{.gather = 1.0, .reduce = 1.0, .backward = 2.0};
  EXPECT_DOUBLE_EQ(sharded_makespan(plan, hidden), 4 * 1.0 + 1.0 + 4 * 2.0 + 1.0);
  plan.parallelism.backward_prefetch = false;
  EXPECT_DOUBLE_EQ(sharded_makespan(plan, hidden), 4 * 1.0 + 4 * (1.0 + 2.0) + 1.0);
}

// Is only one reduction in progress? The previous reduction must end before the next input is
// written, so with s > B they follow each other.
TEST(FullySharded, OneReductionIsUnderWay) {
  const TrainingPlan plan = sharded_plan({.data = 2, .zero_stage = 3});
  EXPECT_DOUBLE_EQ(sharded_makespan(plan, {.reduce = 3.0, .backward = 2.0}), 2.0 + 4 * 3.0);
}

// Does every microbatch repeat the same gathers and reductions?
TEST(FullySharded, EveryMicrobatch) {
  const Durations seconds{.gather = 1.0, .reduce = 1.0, .forward = 2.0, .backward = 4.0};
  const double one = sharded_makespan(sharded_plan({.data = 2, .zero_stage = 3}, 1), seconds);
  EXPECT_DOUBLE_EQ(sharded_makespan(sharded_plan({.data = 2, .zero_stage = 3}, 3), seconds),
                   3 * one);
}

// Do more replicas on an infinite network change nothing (oracle 82)?
TEST(FullySharded, WeakScalingIsFree) {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    const auto run = [zero](std::int64_t data) {
      return sharded_makespan(sharded_plan({.data = data, .zero_stage = zero}, 2),
                              {.forward = 2.0, .backward = 4.0});
    };
    EXPECT_DOUBLE_EQ(run(2), run(4)) << zero;
  }
}

std::vector<TrainingPlan> variants() {
  std::vector<TrainingPlan> plans;
  for (const std::int64_t m : {1, 3}) {
    for (const bool every : {true, false}) {
      plans.push_back(
          sharded_plan({.data = 4, .zero_stage = 2, .reduce_every_microbatch = every}, m));
      for (const Reshard reshard : {Reshard::Auto, Reshard::Always, Reshard::Never}) {
        for (const std::int64_t shard : {0, 1, 2}) {
          for (const std::int64_t pipeline : {1, 2}) {
            plans.push_back(sharded_plan({.tensor = 2,
                                          .sequence_parallel = true,
                                          .pipeline = pipeline,
                                          .data = 4,
                                          .zero_stage = 3,
                                          .shard = shard,
                                          .reshard_after_forward = reshard,
                                          .reshard_group = shard == 0 ? 2 : 0,
                                          .forward_prefetch = 1,
                                          .reduce_every_microbatch = every},
                                         m));
          }
        }
      }
    }
  }
  return plans;
}

// Are gradients added up only if a step has several microbatches?
TEST(FullySharded, OneMicrobatchAddsNothingUp) {
  for (const std::int64_t m : {1, 2}) {
    const TrainingPlan plan =
        sharded_plan({.data = 4, .zero_stage = 3, .reduce_every_microbatch = false}, m);
    const Workload workload = lower(plan);
    std::size_t additions = 0;
    for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
      if (view.name == "gradient_accumulate") ++additions;
    });
    EXPECT_EQ(additions == 0, m == 1) << additions;
  }
}

// Is all memory freed (oracle 60)?
TEST(FullySharded, AllMemoryComesBack) {
  for (const TrainingPlan& plan : variants()) {
    const Step step = timed_step(plan);
    for (const Program& program : step.workload.programs) {
      for (const std::int64_t bytes : unreturned_bytes(step.workload, program)) EXPECT_EQ(bytes, 0);
    }
    for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0)) {
      for (const std::int64_t bytes : point.by_category) EXPECT_GE(bytes, 0);
    }
  }
}

// Do folded and unfolded runs agree?
TEST(FullySharded, FoldedIsUnfolded) {
  for (const TrainingPlan& plan : variants()) {
    const double folded = timed_step(plan).timeline.makespan_s;
    EXPECT_NEAR(timed_step(plan, false).timeline.makespan_s, folded, 1e-9 * folded);
  }
}

// Are at most two layers gathered and one whole? The root and one layer are whole, and at most two
// gathered buffers exist.
TEST(FullySharded, AtMostTwoLayersAreGatheredAndOneIsWhole) {
  TrainingPlan plan = sharded_plan({.data = 4, .zero_stage = 3}, 2);
  const std::int64_t layer = layer_bytes(plan, 2);
  const ChunkWeights weights = chunk_weights(weight_options(plan), {0, 4, true, true});
  const std::int64_t root = weights.parameters() * 2 - 4 * layer;
  const Step step = timed_step(plan);
  std::int64_t whole = 0;
  std::int64_t buffers = 0;
  for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0)) {
    const auto of = [&point](Category category) {
      return point.by_category.at(static_cast<std::size_t>(category));
    };
    whole = std::max(whole, of(Category::UnshardedWeights));
    if (of(Category::UnshardedWeights) > 0)
      buffers = std::max(buffers, of(Category::Communication));
  }
  EXPECT_EQ(whole, root + layer);
  EXPECT_GE(buffers, 2 * layer);
  EXPECT_LE(buffers, std::max(root + layer, layer + 2 * (root + layer)))
      << "with reduced gradients";
}

// Are MTP layers separate groups after the root, which they use too?
TEST(FullySharded, MultiTokenPrediction) {
  for (const std::int64_t pipeline : {1, 2}) {
    for (const Reshard reshard : {Reshard::Auto, Reshard::Always, Reshard::Never}) {
      TrainingPlan plan = sharded_plan(
          {.pipeline = pipeline, .data = 4, .zero_stage = 3, .reshard_after_forward = reshard}, 2);
      plan.training.mtp_layers = 2;
      const Step step = timed_step(plan);
      std::int64_t gathers = 0;
      std::int64_t reduced = 0;
      for (const Program& program : step.workload.programs) {
        for (const std::int64_t bytes : unreturned_bytes(step.workload, program))
          EXPECT_EQ(bytes, 0);
        for_each_operation(step.workload, program, [&](const OperationView& view) {
          if (view.name == "weight_all_gather") ++gathers;
          if (view.name == "gradient_reduce_scatter")
            reduced += bytes_of(step.workload.calls[view.op.payload]);
        });
      }
      // Six layers and the root or, on two stages, both of its parts.
      const std::int64_t groups = 6 + pipeline;
      const std::int64_t roots = pipeline;
      if (reshard == Reshard::Always) {
        // If the root is only the embedding, its backward does not read it but gathers it.
        EXPECT_EQ(gathers, 2 * 2 * groups);
      } else if (pipeline > 1) {
        EXPECT_EQ(gathers, groups) << "kept from microbatch to microbatch";
      } else {
        EXPECT_EQ(gathers, 2 * (reshard == Reshard::Auto ? 2 * groups - roots : groups));
      }
      const double flops = executed_flops(step.workload).value();
      plan.parallelism.zero_stage = 0;
      plan.parallelism.reshard_after_forward = Reshard::Auto;
      EXPECT_EQ(flops, executed_flops(lower(plan)).value());
      const std::int64_t times = pipeline == 1 ? 2 : 1;
      std::int64_t trained = 0;
      const std::int64_t layers = 4 / pipeline;
      for (std::int64_t stage = 0; stage < pipeline; ++stage)
        trained += chunk_weights(weight_options(plan), {.first_layer = stage * layers,
                                                        .layers = layers,
                                                        .has_embedding = stage == 0,
                                                        .has_head = stage + 1 == pipeline})
                       .parameters();
      EXPECT_EQ(reduced, times * 4 * trained);
    }
  }
}

// How many gathers do recomputed groups need? Groups of k layers need k gathers forward, and 2k - 1
// for recomputation and backward together.
TEST(FullySharded, LayersThatAreComputedAgainTogether) {
  for (const auto& [together, gathers] :
       {std::pair{1, 1 + 4 + 4}, {2, 1 + 4 + 6}, {4, 1 + 4 + 7}}) {
    TrainingPlan plan = sharded_plan({.data = 4, .zero_stage = 3});
    plan.training.recompute = Recompute::Full;
    plan.training.recompute_num_layers = together;
    const Step step = timed_step(plan);
    std::int64_t count = 0;
    for_each_operation(step.workload, step.workload.programs[0], [&](const OperationView& view) {
      if (view.name == "weight_all_gather") ++count;
    });
    EXPECT_EQ(count, gathers) << together;
    for (const std::int64_t bytes : unreturned_bytes(step.workload, step.workload.programs[0]))
      EXPECT_EQ(bytes, 0);
    plan.parallelism.zero_stage = 0;
    EXPECT_EQ(executed_flops(step.workload).value(), executed_flops(lower(plan)).value());
  }
}

// Are weights that are kept over a group of one not gathered for the backward?
TEST(FullySharded, AGroupOfOneKeepsAll) {
  const auto gathers = [](const Parallelism& parallelism) {
    const Step step = timed_step(sharded_plan(parallelism));
    std::int64_t count = 0;
    for_each_operation(step.workload, step.workload.programs[0], [&](const OperationView& view) {
      if (view.name == "weight_all_gather") ++count;
    });
    for (const std::int64_t bytes : unreturned_bytes(step.workload, step.workload.programs[0]))
      EXPECT_EQ(bytes, 0);
    return count;
  };
  EXPECT_EQ(gathers({.data = 4, .zero_stage = 3, .reshard_group = 1}), 1 + 4);
  EXPECT_EQ(gathers({.data = 4, .zero_stage = 3, .reshard_group = 2}), 1 + 4 + 4);
}

// Is a group of all ranks that share the weights the same as none? Each rank keeps its shard, and
// nothing beside it.
TEST(FullySharded, AGroupOfAllKeepsNothing) {
  const auto step = [](std::int64_t group) {
    return timed_step(sharded_plan({.data = 4, .zero_stage = 3, .reshard_group = group}));
  };
  const Step none = step(0);
  const Step all = step(4);
  EXPECT_EQ(all.workload.groups.size(), none.workload.groups.size());
  expect_same(all.workload.programs[0], none.workload.programs[0]);
  EXPECT_NE(step(2).workload.groups.size(), none.workload.groups.size());
}

// Is all memory freed where the backward is split and every group is resharded? Input parts end
// before the embedding.
TEST(FullySharded, ASplitBackwardGivesAllBack) {
  for (const char* schedule : {"zb_h1", "zb_h2"}) {
    const Workload workload = lower(sharded_plan({.pipeline = 2,
                                                  .data = 4,
                                                  .schedule = schedule,
                                                  .zero_stage = 3,
                                                  .reshard_after_forward = Reshard::Always},
                                                 4));
    for (const Program& program : workload.programs)
      for (const std::int64_t bytes : unreturned_bytes(workload, program))
        EXPECT_EQ(bytes, 0) << schedule;
  }
}

// Does a rank hold exactly the fp32 weights, gradients and moments of its share?
TEST(FullySharded, HoldsItsShareOfTheState) {
  const TrainingPlan plan = sharded_plan({.data = 4, .zero_stage = 3, .shard = 2});
  const Workload workload = lower(plan);
  const auto resident = resident_bytes(workload, workload.programs[0]);
  const std::int64_t parameters =
      chunk_weights(weight_options(plan), {0, 4, true, true}).parameters();
  EXPECT_EQ(std::accumulate(resident.begin(), resident.end(), std::int64_t{0}),
            parameters / 2 * 16);
}

// Buckets of PyTorch's replicas.

std::vector<double> mebibytes(const std::vector<Bucket>& buckets) {
  std::vector<double> sizes;
  for (const Bucket& bucket : buckets)
    sizes.push_back(static_cast<double>(bucket.parameters) * 4.0 / 1048576.0);
  return sizes;
}

// Do PyTorch's buckets close at 1 MiB and then at 25 MiB (oracle 41)?
TEST(PytorchBuckets, CloseAtOneAndThenTwentyFiveMebibytes) {
  std::vector<GradientEntry> entries;
  for (const double size : {0.5, 0.75, 10.0, 10.0, 10.0, 40.0, 3.0}) {
    entries.push_back({.tensors = {{.rows = static_cast<std::int64_t>(size * 262144.0)}}});
  }
  EXPECT_EQ(mebibytes(pytorch_buckets(entries, pytorch_limits({}, 4))),
            (std::vector<double>{1.25, 30.0, 40.0, 3.0}));
}

// Does GPT-2 124M have 13 buckets (oracle 41)?
TEST(PytorchBuckets, OfGpt2) {
  TrainingPlan plan;
  plan.architecture = load_architecture("gpt2-small");
  plan.training.vocab_multiple = 1;
  const ChunkWeights weights = chunk_weights(weight_options(plan), {0, 12, true, true});
  EXPECT_EQ(weights.parameters(), 124'439'808);
  const auto sizes = mebibytes(pytorch_buckets(weights.entries, pytorch_limits({}, 4)));
  ASSERT_EQ(sizes.size(), 13U);
  EXPECT_NEAR(sizes.front(), 9.009, 5e-4);
  for (std::size_t i = 1; i < 12; ++i) EXPECT_NEAR(sizes[i], 27.038, 5e-4);
  EXPECT_NEAR(sizes.back(), 168.272, 5e-4);
}

// Is there one bucket without overlap, and does a chosen limit apply to all buckets?
TEST(PytorchBuckets, OneWithoutOverlapAndChosenLimitsForAll) {
  const std::vector<GradientEntry> entries(8, {.tensors = {{.rows = 100}, {.rows = 10}}});
  EXPECT_EQ(pytorch_buckets(entries, pytorch_limits({.overlap_grad_reduce = false}, 4)).size(), 1U);
  const auto chosen = pytorch_buckets(entries, pytorch_limits({.bucket_parameters = 100}, 4));
  ASSERT_EQ(chosen.size(), 9U);
  EXPECT_EQ(chosen[0].parameters, 100);
  EXPECT_EQ(chosen[1].parameters, 110) << "the rest of the one entry and the first of the next";
  EXPECT_EQ(chosen[1].begin, 0U);
  EXPECT_EQ(chosen[1].end, 2U);
}

// Do the tensors of every dense model add up to its parameters?
TEST(Tensors, AddUpToTheParameters) {
  std::vector<Architecture> models = {small_gpt(2), small_llama(2)};
  for (const char* name : {"llama3-8b", "qwen2.5-7b", "gpt3-175b"})
    models.push_back(load_architecture(name));
  models.push_back(small_llama(2));
  models.back().qk_norm = models.back().qkv_biases = true;
  models.push_back(small_llama(2));
  models.back().post_norms = true;
  for (const Architecture& model : models) {
    for (const std::int64_t tensor : {1, 2, 4}) {
      const TrainingPlan plan = plan_of(model, {.tensor = tensor}, 1);
      const StageShard shard =
          stage_shard(model, {.part = {.layers = model.layers, .first = true, .last = true},
                              .tensor = tensor,
                              .vocab = plan.vocab()});
      EXPECT_EQ(chunk_weights(weight_options(plan), {0, model.layers, true, true}).parameters(),
                shard.total())
          << model.name;
    }
  }
}

// Do gradients exist only as long as their bucket with ZeRO 2? In addition to its share a rank
// holds the buckets that are being filled and sent.
TEST(Zero2, GradientsLiveAsLongAsTheirBucket) {
  TrainingPlan plan = sharded_plan({.data = 4, .zero_stage = 2}, 2);
  plan.parallelism.bucket_parameters = layer_bytes(plan, 1);
  const std::int64_t all = chunk_weights(weight_options(plan), {0, 4, true, true}).parameters() * 4;
  const auto peak = [&] {
    const Step step = timed_step(plan);
    std::int64_t most = 0;
    for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
      most = std::max(most, point.by_category[static_cast<std::size_t>(Category::Gradients)]);
    return most;
  };
  const std::int64_t partitioned = peak();
  EXPECT_GT(partitioned, all / 4);
  EXPECT_LT(partitioned, all);
  plan.parallelism.overlap_grad_reduce = false;
  EXPECT_LE(peak(), partitioned) << "one bucket after the other";
  plan.parallelism.overlap_grad_reduce = true;
  plan.parallelism.reduce_every_microbatch = false;
  EXPECT_EQ(peak(), all) << "kept whole between the microbatches";
}

}  // namespace
}  // namespace trainyard
