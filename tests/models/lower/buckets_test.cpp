// Gradient buckets: which gradients are reduced together, when, and how much of the reduction the
// backward hides (PyTorch torch/csrc/distributed/c10d/reducer.cpp; Megatron-LM
// core/distributed/param_and_grad_buffer.py; oracles 41 and 42).
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/architecture/weights.hpp"
#include "models/lower/data_parallel/bucketed.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/stage_shard.hpp"

namespace trainyard {
namespace {

using namespace test;

using Sizes = std::vector<std::int64_t>;

Sizes parameters_of(const std::vector<Bucket>& buckets) {
  Sizes sizes;
  for (const Bucket& bucket : buckets) sizes.push_back(bucket.parameters);
  return sizes;
}

// Do buckets close when the limit is reached? Oracle 41, in MiB / 4: the first bucket closes at 1
// MiB, the others at 25 MiB, and the tensor that crosses the limit is included.
TEST(Buckets, CloseWhenTheLimitIsReached) {
  constexpr std::int64_t kQuarter = 1 << 18;
  const Sizes tensors = {2 * kQuarter,  3 * kQuarter,   40 * kQuarter, 40 * kQuarter,
                         40 * kQuarter, 160 * kQuarter, 12 * kQuarter};
  const auto first = make_buckets(tensors, 4 * kQuarter, 1);
  EXPECT_EQ(first.front().parameters, 5 * kQuarter);
  EXPECT_EQ(first.front().end, 2U);
  const auto rest = make_buckets(std::span(tensors).subspan(2), 100 * kQuarter, 1);
  EXPECT_EQ(parameters_of(rest), (Sizes{120 * kQuarter, 160 * kQuarter, 12 * kQuarter}));
}

// Is every gradient in exactly one bucket?
TEST(Buckets, EveryEntryIsInExactlyOne) {
  const Sizes sizes = {5, 700, 300, 41, 9000, 1, 1, 2500};
  for (const std::int64_t limit : {0, 1, 500, 2000, 100'000}) {
    const auto buckets = make_buckets(sizes, limit, 4);
    std::size_t next = 0;
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.begin, next);
      EXPECT_GT(bucket.end, bucket.begin);
      next = bucket.end;
    }
    EXPECT_EQ(next, sizes.size());
  }
  EXPECT_EQ(make_buckets(sizes, 0, 4).size(), 1U);
  EXPECT_TRUE(make_buckets({}, 100, 4).empty());
}

// Are buckets padded for the replicas? The end of a bucket is padded to lcm(d, 128) elements, so
// that each replica has an equal share.
TEST(Buckets, PadToTheReplicas) {
  for (const std::int64_t d : {1, 2, 3, 64, 96, 100, 256}) {
    const std::int64_t multiple = std::lcm(d, std::int64_t{128});
    for (const Bucket& bucket : make_buckets(Sizes{1000, 1000, 1000}, 1500, d)) {
      EXPECT_EQ(bucket.parameters % multiple, 0);
      EXPECT_LT(bucket.parameters, 2000 + multiple);
    }
  }
}

// Is the bucket limit that of Megatron?
TEST(Buckets, MegatronsLimit) {
  EXPECT_EQ(bucket_limit({.data = 8}, 0, 0), 40'000'000);
  EXPECT_EQ(bucket_limit({.data = 128}, 0, 0), 128'000'000);
  EXPECT_EQ(bucket_limit({.data = 128, .bucket_parameters = 7}, 0, 0), 7);
  EXPECT_EQ(bucket_limit({.data = 8}, 1, 0), 0) << "later pipeline ranks: one bucket";
  EXPECT_EQ(bucket_limit({.data = 8}, 0, 1), 0) << "later chunks: one bucket";
  EXPECT_EQ(bucket_limit({.data = 8, .overlap_grad_reduce = false}, 0, 0), 0);
  EXPECT_EQ(bucket_limit({.data = 8, .zero_stage = 2, .overlap_grad_reduce = false}, 1, 1),
            40'000'000)
      << "partitioned gradients are given back bucket by bucket";
}

// Is the limit that of PyTorch, unless the scenario gives one, however small?
TEST(Buckets, PyTorchsLimit) {
  const auto limits = [](const Parallelism& parallelism) {
    const BucketLimits found = pytorch_limits(parallelism, 4);
    return std::pair(found.first, found.others);
  };
  EXPECT_EQ(limits({.data = 8}), std::pair((1L << 20) / 4, 25 * (1L << 20) / 4));
  EXPECT_EQ(limits({.data = 8, .bucket_parameters = 1}), std::pair(1L, 1L));
  EXPECT_EQ(limits({.data = 8, .overlap_grad_reduce = false}), std::pair(0L, 0L));
}

// The number of elements that each stage reduces, in the order of the calls.
Sizes reduced_elements(const TrainingPlan& plan, std::size_t stage) {
  const Workload workload = lower(plan);
  Sizes elements;
  for_each_operation(workload, workload.programs[stage], [&](const OperationView& view) {
    if (!view.name.starts_with("gradient_") ||
        view.op.stream != static_cast<std::uint8_t>(Stream::Data))
      return;
    elements.push_back(bytes_of(workload.calls[view.op.payload]) / 4);
  });
  return elements;
}

// Does a lowered step reduce these buckets?
TEST(Buckets, OfALoweredStep) {
  TrainingPlan plan = plan_of(
      small_gpt(8),
      {.tensor = 2, .pipeline = 2, .interleave = 2, .data = 4, .schedule = "interleaved_1f1b"}, 4);
  plan.parallelism.bucket_parameters = 400'000;
  const auto one_of = [&](bool first, bool last, std::int64_t layers) {
    const StageShard shard =
        stage_shard(plan.architecture, {.part = {.layers = layers, .first = first, .last = last},
                                        .tensor = 2,
                                        .vocab = plan.vocab()});
    return shard.total();
  };
  const auto padded = [](std::int64_t size) { return (size + 127) / 128 * 128; };
  const Sizes first = reduced_elements(plan, 0);
  ASSERT_GT(first.size(), 2U);
  EXPECT_EQ(first.front(), padded(one_of(false, false, 2))) << "the second chunk comes back first";
  const std::int64_t rest = std::accumulate(first.begin() + 1, first.end(), std::int64_t{0});
  EXPECT_GE(rest, one_of(true, false, 2));
  EXPECT_LT(rest, one_of(true, false, 2) + 128 * std::ssize(first));
  EXPECT_EQ(reduced_elements(plan, 1),
            (Sizes{padded(one_of(false, true, 2)), padded(one_of(false, false, 2))}));
  plan.parallelism.overlap_grad_reduce = false;
  EXPECT_EQ(reduced_elements(plan, 0),
            (Sizes{padded(one_of(true, false, 2)), padded(one_of(false, false, 2))}));
}

// Four layers whose gradients are ready at 1, 2, 3 and 4 s, one bucket each. The attention core
// takes the second; a bucket closes with the QKV gradient right after it. The rest (the last norm
// and the embedding) is reduced in no time.
TrainingPlan four_buckets() {
  TrainingPlan plan = plan_of(small_llama(4), {.data = 2}, 1);
  plan.architecture.vocab = 128;
  const LayerShard layer = layer_shard(plan.architecture, layer_kind(plan.architecture, 0));
  plan.parallelism.bucket_parameters = layer.total();
  return plan;
}

Step overlap_step(const TrainingPlan& plan, double reduction) {
  const std::int64_t bucket = plan.parallelism.bucket_parameters * 4;
  const CallModel communication([=](const Call& call) {
    return op_of(call) == CollectiveOp::AllReduce && bytes_of(call) >= bucket ? reduction : 0.0;
  });
  return replay(lower(plan), communication, core_seconds(0.0, 1.0));
}

// Does the reduction of bucket k start at max(ready_k, end_{k-1}) (oracle 42)?
TEST(GradientOverlap, IsTheMaxPlusRecurrence) {
  const TrainingPlan plan = four_buckets();
  EXPECT_EQ(reduced_elements(plan, 0).size(), 5U);
  const Step slow = overlap_step(plan, 1.5);
  EXPECT_DOUBLE_EQ(slow.timeline.makespan_s, 7.0);
  const Breakdown shares = breakdown(slow.workload, slow.partition, slow.timeline, 0);
  EXPECT_DOUBLE_EQ(shares.of(TimeShare::ExposedData), 3.0);
  EXPECT_DOUBLE_EQ(shares.of(TimeShare::Compute), 4.0);
  EXPECT_DOUBLE_EQ(overlap_step(plan, 0.5).timeline.makespan_s, 4.5);
}

// Is the whole reduction exposed without overlap?
TEST(GradientOverlap, WithoutItEverythingIsExposed) {
  TrainingPlan plan = four_buckets();
  plan.parallelism.overlap_grad_reduce = false;
  EXPECT_EQ(reduced_elements(plan, 0).size(), 1U);
  EXPECT_DOUBLE_EQ(overlap_step(plan, 1.5).timeline.makespan_s, 5.5);
}

// Are gradients reduced only in the last microbatch, without delaying the accumulation before?
TEST(GradientOverlap, HappensInTheLastMicrobatch) {
  TrainingPlan plan = four_buckets();
  plan.training.global_batch_size = 6;
  EXPECT_DOUBLE_EQ(overlap_step(plan, 1.5).timeline.makespan_s, 4.0 + 4.0 + 7.0);
}

// Do weight gathers run ahead of the forward? The weights of bucket k arrive k+1 gathers after the
// start, and each layer waits for its own.
TEST(WeightGather, RunsAheadOfTheForward) {
  TrainingPlan plan = four_buckets();
  plan.parallelism.zero_stage = 1;
  const std::int64_t bucket = plan.parallelism.bucket_parameters * 2;
  const auto run = [&](double gather, double forward) {
    const CallModel communication([=](const Call& call) {
      return op_of(call) == CollectiveOp::AllGather && bytes_of(call) >= bucket ? gather : 0.0;
    });
    return replay(lower(plan), communication, core_seconds(forward, 0.0)).timeline.makespan_s;
  };
  // The last entry of a layer in backward order, its first norm, is in the bucket of the previous
  // layer. So the first layer needs one gather, and the others wait only for missing ones.
  EXPECT_DOUBLE_EQ(run(0.25, 1.0), 0.25 + 4.0) << "hidden behind the forward but for the first";
  EXPECT_DOUBLE_EQ(run(2.0, 1.0), 4 * 2.0 + 1.0) << "one layer behind the last gather";
  plan.parallelism.overlap_param_gather = false;
  EXPECT_DOUBLE_EQ(run(0.25, 1.0), 4.0 + 4 * 0.25) << "all of it after the optimizer";
}

// Eight microbatches of four_buckets with partitioned gradients. The forward of a layer takes as
// long as its backward.
Step partitioned_step(std::int64_t in_flight, double reduction) {
  TrainingPlan plan = four_buckets();
  plan.parallelism.zero_stage = 2;
  plan.parallelism.gradient_buckets_in_flight = in_flight;
  plan.training.global_batch_size = 16;
  const std::int64_t bucket = plan.parallelism.bucket_parameters * 4;
  const CallModel communication([=](const Call& call) {
    return op_of(call) == CollectiveOp::ReduceScatter && bytes_of(call) >= bucket ? reduction : 0.0;
  });
  return replay(lower(plan), communication, core_seconds(1.0, 1.0));
}

// The largest number of bytes of the buckets that exist at the same time.
std::int64_t bucket_bytes(const Step& step) {
  constexpr auto kGradients = static_cast<std::size_t>(Category::Gradients);
  std::int64_t most = 0;
  for (const MemoryPoint& point : memory_curve(step.workload, step.partition, step.timeline, 0))
    most = std::max(most, point.by_category[kGradients]);
  return most - resident_bytes(step.workload, step.workload.programs[0])[kGradients];
}

double last_backward_begins(const Step& step) {
  double latest = 0.0;
  for_each_operation(step.workload, step.workload.programs[0], [&](const OperationView& view) {
    if (view.name == "attention_backward")
      latest = std::max(latest, step.timeline.classes[0].start_s[view.index]);
  });
  return latest;
}

// Does the limit bound the gradients that exist? Four reductions of 3 s run concurrently with 8 s
// of computation. Without a limit a third of all gradients accumulated (Llama-3 8B on two DGX A100
// with NICs of 4 GB/s: 174 GiB of 80).
TEST(BucketsInFlight, BoundTheGradientsThatExist) {
  const Sizes elements = [] {
    TrainingPlan plan = four_buckets();
    plan.parallelism.zero_stage = 2;
    return reduced_elements(plan, 0);
  }();
  const std::int64_t bucket = 4 * *std::max_element(elements.begin(), elements.end());
  for (const std::int64_t in_flight : {1, 2, 3, 5}) {
    const Step step = partitioned_step(in_flight, 3.0);
    EXPECT_LE(bucket_bytes(step), in_flight * bucket) << in_flight;
    EXPECT_GT(bucket_bytes(step), in_flight * bucket / 2) << in_flight;
  }
  EXPECT_GT(bucket_bytes(partitioned_step(100, 3.0)), 8 * bucket);
  EXPECT_EQ(bucket_bytes(partitioned_step(0, 3.0)), bucket_bytes(partitioned_step(2, 3.0)))
      << "a framework has two";
}

// Does the backward wait for reductions if the number of buckets is limited? Without a limit the
// backwards follow each other, 64 s in total; with a limit the waiting time is exposed.
TEST(BucketsInFlight, TheBackwardWaits) {
  const Step free = partitioned_step(100, 3.0);
  const Step bounded = partitioned_step(2, 3.0);
  EXPECT_DOUBLE_EQ(last_backward_begins(free), 63.0);
  EXPECT_GT(last_backward_begins(bounded), 90.0);
  EXPECT_GE(bounded.timeline.makespan_s, free.timeline.makespan_s);
  EXPECT_LT(bounded.timeline.makespan_s, 1.25 * free.timeline.makespan_s);
  const Breakdown shares = breakdown(bounded.workload, bounded.partition, bounded.timeline, 0);
  EXPECT_NEAR(shares.of(TimeShare::ExposedData), bounded.timeline.makespan_s - 64.0, 1e-9);
}

// Does the limit cost nothing if the reductions keep up?
TEST(BucketsInFlight, CostNothingWhereReductionsKeepPace) {
  EXPECT_DOUBLE_EQ(partitioned_step(2, 0.5).timeline.makespan_s,
                   partitioned_step(100, 0.5).timeline.makespan_s);
}

// Do the buckets of one layer count as one? If one layer fills three buckets, the wait is for all
// of them, and the reductions of two layers overlap.
TEST(BucketsInFlight, OfOneLayerCountAsOne) {
  TrainingPlan plan = four_buckets();
  plan.parallelism.zero_stage = 2;
  plan.training.global_batch_size = 16;
  const std::int64_t whole = 4 * plan.parallelism.bucket_parameters;
  plan.parallelism.bucket_parameters /= 4;
  const CallModel communication([](const Call& call) {
    return op_of(call) == CollectiveOp::ReduceScatter ? 1e-6 * static_cast<double>(bytes_of(call))
                                                      : 0.0;
  });
  const Step step = replay(lower(plan), communication, core_seconds(1.0, 1.0));
  EXPECT_GT(bucket_bytes(step), whole);
  EXPECT_LE(bucket_bytes(step), 5 * whole / 2);
}

// Are buckets filled in every microbatch if the embedding is frozen? A frozen embedding has no
// backward that would end a microbatch.
TEST(BucketsInFlight, FillWithEveryMicrobatchWhereTheEmbeddingIsFrozen) {
  const auto reductions = [](std::int64_t microbatches) {
    TrainingPlan plan = four_buckets();
    plan.parallelism.zero_stage = 2;
    plan.training.frozen_embedding = true;
    plan.training.global_batch_size = 2 * microbatches;
    const Workload workload = lower(plan);
    int count = 0;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == "gradient_reduce_scatter") ++count;
    });
    return count;
  };
  ASSERT_GT(reductions(1), 1);
  EXPECT_EQ(reductions(8), 8 * reductions(1));
}

// Can a step of many layers be lowered? The work is linear in the number of layers; quadratic work
// would take minutes.
TEST(Buckets, StepsOfManyLayersAreLowered) {
  TrainingPlan plan = plan_of(small_llama(50'000), {.data = 2}, 1);
  const Workload workload = lower(plan);
  EXPECT_GT(workload.programs.at(0).operations.size(), 50'000U);
}

}  // namespace
}  // namespace trainyard
