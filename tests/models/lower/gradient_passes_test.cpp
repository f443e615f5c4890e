// How often are gradients read and written between the last backward and the optimizer?
#include "models/gradient_passes.hpp"

#include <gtest/gtest.h>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// HBM bytes of all kernels of one name on rank 0, and their number.
struct Passes {
  std::int64_t kernels = 0;
  std::int64_t bytes = 0;
  bool operator==(const Passes&) const = default;
};

Passes passes_of(const Workload& step, std::string_view name) {
  Passes found;
  for_each_operation(step, step.programs.front(), [&](const OperationView& view) {
    if (view.name != name) return;
    ++found.kernels;
    found.bytes +=
        std::get<MemoryBound>(step.kernels.at(step.programs.front().kernel_of(view.op))).bytes;
  });
  return found;
}

// Two replicas, gradients in fp32: 4 bytes each; all of them in one bucket.
TrainingPlan plan_with(GradientPasses passes, std::int64_t replicas) {
  TrainingPlan plan = plan_of(small_llama(4), {.data = replicas}, 2);
  plan.parallelism.overlap_grad_reduce = false;
  plan.gradient_passes = passes;
  return plan;
}

std::int64_t gradient_bytes(const TrainingPlan& plan) {
  return passes_of(lower(plan), "zero_gradients").bytes;
}

constexpr GradientPasses kMegatron{
    .average = GradientAverage::Before, .check = GradientCheck::On, .unscale = true};

TEST(GradientPasses, ScalingReadsAndWritesCheckingReads) {
  const TrainingPlan plan = plan_with(kMegatron, 2);
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(passes_of(lower(plan), "gradient_scaling"), (Passes{1, 2 * all}));
  EXPECT_EQ(passes_of(lower(plan), "gradient_nan_check"), (Passes{1, all}));
}

TEST(GradientPasses, OneReplicaIsScaledByOldFrameworksAlone) {
  TrainingPlan plan = plan_with(kMegatron, 1);
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(passes_of(lower(plan), "gradient_scaling"), Passes{});
  EXPECT_EQ(passes_of(lower(plan), "gradient_nan_check"), (Passes{1, all}));
  plan.training.gradient_average = GradientAverage::BeforeAlways;
  EXPECT_EQ(passes_of(lower(plan), "gradient_scaling"), (Passes{1, 2 * all}));
}

TEST(GradientPasses, AScenarioGoesOverTheFramework) {
  TrainingPlan plan = plan_with(kMegatron, 2);
  plan.training.gradient_average = GradientAverage::Collective;
  plan.training.gradient_check = GradientCheck::Off;
  EXPECT_EQ(passes_of(lower(plan), "gradient_scaling"), Passes{});
  EXPECT_EQ(passes_of(lower(plan), "gradient_nan_check"), Passes{});
}

// As buckets fill during the last backward, each is scaled before it is sent.
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

// Only fp16 has a loss scale, and only what is the rank's own is unscaled (here half of it).
TEST(GradientPasses, TheLossScaleOfFp16GoesOut) {
  TrainingPlan plan = plan_with(kMegatron, 2);
  plan.parallelism.zero_stage = 1;
  const std::int64_t all = gradient_bytes(plan);
  EXPECT_EQ(passes_of(lower(plan), "gradient_unscale"), Passes{});
  plan.training.precision = DataType::Fp16;
  EXPECT_EQ(passes_of(lower(plan), "gradient_unscale"), (Passes{1, 2 * all / 2}));
  plan.gradient_passes.unscale = false;
  EXPECT_EQ(passes_of(lower(plan), "gradient_unscale"), Passes{});
}

TEST(GradientPasses, AreReadFromTheFramework) {
  const GradientPasses megatron = load_gradient_passes("megatron");
  EXPECT_EQ(megatron.average, GradientAverage::Before);
  EXPECT_EQ(megatron.check, GradientCheck::On);
  EXPECT_TRUE(megatron.unscale);
  EXPECT_EQ(load_gradient_passes("torchtitan").average, GradientAverage::Collective);
  for (const std::string& name : data_names("models/frameworks"))
    EXPECT_NO_THROW(static_cast<void>(load_gradient_passes(name))) << name;
}

TEST(GradientPasses, AMistypedPassIsRefused) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "passes.json";
  write_file(file, R"({"gradient_passes": {"scaled": {"value": true, "source": "a guess"}}})");
  EXPECT_THROW(static_cast<void>(load_gradient_passes(file.string())), InputError);
}

}  // namespace
}  // namespace trainyard
