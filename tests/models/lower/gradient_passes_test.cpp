// The passes over gradients between the last backward and the optimizer.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/framework.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// Two replicas, gradients in fp32: 4 bytes each; all of them in one bucket.
TrainingPlan plan_with(GradientPasses passes, std::int64_t replicas) {
  TrainingPlan plan = plan_of(small_llama(4), {.data = replicas}, 2);
  plan.parallelism.overlap_grad_reduce = false;
  plan.gradient_passes = passes;
  return plan;
}

std::int64_t gradient_bytes(const TrainingPlan& plan) {
  return traffic_of(lower(plan), "zero_gradients").bytes;
}

constexpr GradientPasses kMegatron{
    .average = GradientAverage::Before, .check = GradientCheck::On, .unscale = true};

// Does scaling read and write the gradients, and checking read them?
TEST(GradientPasses, ScalingReadsAndWritesCheckingReads) {
  const TrainingPlan plan = plan_with(kMegatron, 2);
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(traffic_of(lower(plan), "gradient_scaling"), (Traffic{1, 2 * all}));
  EXPECT_EQ(traffic_of(lower(plan), "gradient_nan_check"), (Traffic{1, all}));
}

// Do only old frameworks scale the gradients of one replica?
TEST(GradientPasses, OneReplicaIsScaledByOldFrameworksAlone) {
  TrainingPlan plan = plan_with(kMegatron, 1);
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(traffic_of(lower(plan), "gradient_scaling"), Traffic{});
  EXPECT_EQ(traffic_of(lower(plan), "gradient_nan_check"), (Traffic{1, all}));
  plan.training.gradient_average = GradientAverage::BeforeAlways;
  EXPECT_EQ(traffic_of(lower(plan), "gradient_scaling"), (Traffic{1, 2 * all}));
}

// Does a field of the scenario override the framework?
TEST(GradientPasses, AScenarioGoesOverTheFramework) {
  TrainingPlan plan = plan_with(kMegatron, 2);
  plan.training.gradient_average = GradientAverage::Collective;
  plan.training.gradient_check = GradientCheck::Off;
  EXPECT_EQ(traffic_of(lower(plan), "gradient_scaling"), Traffic{});
  EXPECT_EQ(traffic_of(lower(plan), "gradient_nan_check"), Traffic{});
}

// Is every bucket scaled before its reduction? Buckets fill during the last backward.
TEST(GradientPasses, EveryBucketIsScaledBeforeItsReduction) {
  TrainingPlan plan = plan_with(kMegatron, 2);
  plan.parallelism.overlap_grad_reduce = true;
  plan.parallelism.bucket_parameters = 400'000;
  const Workload step = lower(plan);
  std::int64_t reductions = 0;
  std::int64_t scaled = 0;
  for_each_operation(step, step.programs.front(), [&](const OperationView& view) {
    if (view.name == "gradient_scaling") ++scaled;
    if (view.name == "gradient_all_reduce") {
      EXPECT_EQ(++reductions, scaled);
    }
  });
  EXPECT_GT(reductions, 1);
}

// Does autograd add the gradients of every microbatch except the first? It reads the gradient and
// the sum and writes the sum. GEMMs that accumulate by themselves need no such kernel.
TEST(GradientPasses, AutogradAddsEveryMicrobatchButTheFirst) {
  TrainingPlan plan = plan_with({.accumulate = true}, 2);
  plan.training.gradient_precision = DataType::Bf16;
  plan.training.global_batch_size = 2 * 5 * plan.training.micro_batch_size;
  const std::int64_t all = gradient_bytes(plan);
  const Traffic sums = traffic_of(lower(plan), "gradient_accumulate");
  EXPECT_EQ(sums.bytes, 4 * 3 * all);
  EXPECT_EQ(sums.kernels, 4 * 6) << "embedding, layers, head";
  plan.gradient_passes = {};
  EXPECT_EQ(traffic_of(lower(plan), "gradient_accumulate"), Traffic{});
}

// Are gradients that are not kept whole not accumulated? ZeRO 2 frees gradients after every
// microbatch, ZeRO 3 keeps shards.
TEST(GradientPasses, WhatIsNotKeptWholeIsNotAddedTo) {
  for (const std::int64_t stage : {2, 3}) {
    TrainingPlan plan = plan_with({.accumulate = true}, 2);
    plan.training.global_batch_size = 2 * 5 * plan.training.micro_batch_size;
    plan.parallelism.zero_stage = stage;
    plan.parallelism.reduce_every_microbatch = true;
    TrainingPlan other = plan;
    other.gradient_passes = {};
    EXPECT_EQ(traffic_of(lower(plan), "gradient_accumulate"),
              traffic_of(lower(other), "gradient_accumulate"))
        << stage;
  }
}

// Do reductions wait for the sum? A bucket is sent when its last gradient is in the sum, not when a
// GEMM has produced it.
TEST(GradientPasses, ReductionsWaitForTheSum) {
  TrainingPlan plan = plan_with({.accumulate = true}, 2);
  plan.parallelism.overlap_grad_reduce = true;
  for (const std::int64_t limit : {400'000, 1}) {  // of one parameter: a bucket for each gradient
    plan.parallelism.bucket_parameters = limit;
    const Workload step = lower(plan);
    const Program& program = step.programs.front();
    std::int64_t reductions = 0;
    for_each_operation(step, program, [&](const OperationView& view) {
      if (view.name != "gradient_all_reduce") return;
      ++reductions;
      const auto inputs = program.dependencies_of(view.index);
      EXPECT_TRUE(std::ranges::any_of(inputs, [&](OpIndex input) {
        return step.names[program.operations[input].name] == "gradient_accumulate";
      })) << reductions;
    });
    EXPECT_GT(reductions, limit == 1 ? 10 : 1);
  }
}

// Is the gradient of the embedding as large as its table? Example: a table of 1 MiB in bf16 and 2
// KiB of gradient rows are 1 MiB of zeros and 6 KiB of added rows; reading 1 MiB once more, with 2
// MiB of fp32 sums read and written, is 5 MiB more.
TEST(GradientPasses, TheTableOfEmbeddingsHasAGradientAsLargeAsItself) {
  TrainingPlan plan = plan_with({}, 2);
  const Architecture& a = plan.architecture;
  const std::int64_t table = plan.vocab() * a.hidden;
  const std::int64_t rows =
      plan.training.micro_batch_size * plan.training.sequence_length * a.hidden;
  const std::int64_t made = 2 * (table + 3 * rows);
  const auto once = [&] {
    const Traffic passes = traffic_of(lower(plan), "embedding_backward");
    return passes.bytes / passes.kernels;
  };
  EXPECT_EQ(once(), made + 10 * table);
  plan.training.gradient_precision = DataType::Bf16;
  EXPECT_EQ(once(), made + 6 * table);
  plan.gradient_passes.accumulate = true;
  EXPECT_EQ(once(), made) << "the sum is a kernel of its own";
  plan.gradient_passes.accumulate = false;
  plan.parallelism.zero_stage = 3;
  EXPECT_EQ(once(), made) << "kept as it is made";
}

// Is the loss scale of fp16 removed? Only fp16 has a loss scale, and each rank unscales its own
// share (here half).
TEST(GradientPasses, TheLossScaleOfFp16GoesOut) {
  TrainingPlan plan = plan_with(kMegatron, 2);
  plan.parallelism.zero_stage = 1;
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(traffic_of(lower(plan), "gradient_unscale"), Traffic{});
  plan.training.precision = DataType::Fp16;
  EXPECT_EQ(traffic_of(lower(plan), "gradient_unscale"), (Traffic{1, 2 * all / 2}));
  plan.gradient_passes.unscale = false;
  EXPECT_EQ(traffic_of(lower(plan), "gradient_unscale"), Traffic{});
}

// Are the passes read from the framework?
TEST(GradientPasses, AreReadFromTheFramework) {
  const GradientPasses megatron = load_gradient_passes("megatron");
  EXPECT_EQ(megatron.average, GradientAverage::Before);
  EXPECT_EQ(megatron.check, GradientCheck::On);
  EXPECT_TRUE(megatron.unscale);
  EXPECT_FALSE(megatron.accumulate);
  EXPECT_TRUE(load_gradient_passes("deepspeed").accumulate);
  EXPECT_EQ(load_gradient_passes("torchtitan").average, GradientAverage::Collective);
  for (const std::string& name : data_names("models/frameworks"))
    EXPECT_NO_THROW(static_cast<void>(load_gradient_passes(name))) << name;
}

// Is a mistyped pass refused?
TEST(GradientPasses, AMistypedPassIsRefused) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "passes.json";
  write_file(file, R"({"gradient_passes": {"scaled": {"value": true, "source": "a guess"}}})");
  EXPECT_THROW(static_cast<void>(load_gradient_passes(file.string())), InputError);
}

}  // namespace
}  // namespace trainyard
