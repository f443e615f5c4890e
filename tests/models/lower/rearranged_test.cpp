// A step with another number of microbatches that is made of known blocks, against one that is
// lowered anew.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "same_program.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan with_microbatches(TrainingPlan plan, std::int64_t count) {
  plan.training.global_batch_size = count * plan.training.micro_batch_size * plan.parallelism.data;
  return plan;
}

// Whether the step of `to` is made of the blocks of `from`. If it is, it must equal the lowered
// step.
bool is_rearranged(const TrainingPlan& from, const TrainingPlan& to) {
  const SteppedWorkload known = lower_stepped(from);
  const auto programs = rearranged(known.workload.programs, known.books, to);
  if (!programs) return false;
  const Workload fresh = lower(to);
  EXPECT_EQ(known.workload.names, fresh.names);
  EXPECT_EQ(known.workload.kernels, fresh.kernels);
  EXPECT_EQ(known.workload.calls, fresh.calls);
  EXPECT_EQ(known.workload.streams, fresh.streams);
  EXPECT_EQ(programs->size(), fresh.programs.size());
  for (std::size_t i = 0; i < fresh.programs.size(); ++i) {
    SCOPED_TRACE(fresh.programs[i].name);
    expect_same(programs->at(i), fresh.programs[i]);
    EXPECT_TRUE(
        programs->at(i).operations.shares_blocks_with(known.workload.programs[i].operations));
  }
  return true;
}

// Whether this holds for more microbatches and for fewer.
bool is_rearranged(const TrainingPlan& plan, std::int64_t more) {
  const TrainingPlan longer = with_microbatches(plan, plan.microbatches() + more);
  const bool both = is_rearranged(plan, longer);
  EXPECT_EQ(is_rearranged(longer, plan), both);
  return both;
}

// Is every schedule the same as lowered anew?
TEST(Rearranged, EveryScheduleIsAsLoweredAfresh) {
  for_each_schedule([](const TrainingPlan& plan) {
    EXPECT_TRUE(is_rearranged(plan, 4));
    EXPECT_TRUE(is_rearranged(plan, 24));
  });
}

// Are replicas the same as lowered anew?
TEST(Rearranged, ReplicasAreAsLoweredAfresh) {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    for (const bool overlap : {true, false}) {
      SCOPED_TRACE(zero);
      const TrainingPlan plan = plan_of(small_gpt(8),
                                        {.tensor = 2,
                                         .sequence_parallel = overlap,
                                         .pipeline = 2,
                                         .data = 4,
                                         .zero_stage = zero,
                                         .overlap_grad_reduce = overlap,
                                         .overlap_param_gather = overlap},
                                        12);
      EXPECT_EQ(is_rearranged(plan, 3), zero < 2);
    }
  }
}

// Are recomputation, context ranks and experts the same as lowered anew?
TEST(Rearranged, RecomputedContextsAndExpertsAreAsLoweredAfresh) {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    TrainingPlan plan = plan_of(small_llama(8), {.pipeline = 2, .data = 2, .context = 2}, 12);
    plan.training.recompute = recompute;
    EXPECT_TRUE(is_rearranged(plan, 5));
    plan = plan_of(small_moe(8), {.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1}, 12);
    plan.training.recompute = recompute;
    plan.training.mtp_layers = 1;
    EXPECT_TRUE(is_rearranged(plan, 1));
  }
}

// Are overlapped pairs the same as lowered anew? A pair of DualPipe is half of all microbatches
// apart, which differs in a longer step.
TEST(Rearranged, OverlappedPairsAreAsLoweredAfresh) {
  TrainingPlan plan = plan_of(small_moe(8),
                              {.pipeline = 4,
                               .interleave = 2,
                               .data = 2,
                               .expert = 2,
                               .expert_tensor = 1,
                               .schedule = "dualpipe",
                               .zero_stage = 1},
                              48);
  for (const std::string schedule : {"dualpipe", "dualpipe_v", "interleaved_1f1b"}) {
    SCOPED_TRACE(schedule);
    plan.parallelism.schedule = schedule;
    plan.experts.overlap_dispatch = schedule == "interleaved_1f1b";
    EXPECT_EQ(is_rearranged(plan, 8), schedule != "dualpipe");
  }
}

// Are gradients that a kernel accumulates the same as lowered anew?
TEST(Rearranged, GradientsAddedUpByAKernelAreAsLoweredAfresh) {
  for (const std::string schedule : {"1f1b", "zb_h1"}) {
    TrainingPlan plan = plan_of(
        small_gpt(8), {.pipeline = 2, .data = 2, .schedule = schedule, .zero_stage = 1}, 12);
    plan.gradient_passes.accumulate = true;
    EXPECT_TRUE(is_rearranged(plan, 2));
  }
}

// Do programs of one template still share their lists? They belong to several EP ranks.
TEST(Rearranged, ProgramsOfATemplateStayOfOne) {
  TrainingPlan plan =
      plan_of(small_moe(4), {.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1}, 6);
  plan.experts.routing = RoutingKind::Zipf;
  plan.experts.zipf_exponent = 0.6;
  const SteppedWorkload known = lower_stepped(plan);
  const auto programs =
      rearranged(known.workload.programs, known.books, with_microbatches(plan, 9));
  EXPECT_TRUE(is_rearranged(plan, 3));
  ASSERT_TRUE(programs.has_value());
  ASSERT_GT(programs->size(), 2U);
  for (std::size_t i = 1; i < programs->size(); ++i)
    EXPECT_EQ(programs->at(i).same_template(programs->at(i - 1)),
              known.workload.programs[i].same_template(known.workload.programs[i - 1]));
}

// Is a step that needs other blocks not rearranged? One microbatch or a few do not do what many do,
// and parts that differ are written out each time.
TEST(Rearranged, WhatNeedsOtherBlocksIsNot) {
  const TrainingPlan plan = pipeline_plan({.schedule = "1f1b", .pipeline = 4, .microbatches = 12});
  EXPECT_FALSE(is_rearranged(plan, with_microbatches(plan, 1)));
  EXPECT_FALSE(is_rearranged(with_microbatches(plan, 1), plan));
  EXPECT_FALSE(is_rearranged(with_microbatches(plan, 2), plan));
  TrainingPlan packed = plan_of(small_llama(4), {.pipeline = 2}, 6);
  packed.documents = {.kind = DocumentKind::List, .lengths = {64, 32, 16, 16}};
  EXPECT_FALSE(is_rearranged(packed, 2));
  TrainingPlan stored = plan_of(small_llama(4), {.pipeline = 2}, 6);
  stored.offload = {.activations = 1.0};
  stored.host.bandwidth = BytesPerSecond{1e9};
  EXPECT_FALSE(is_rearranged(stored, 2));
}

}  // namespace
}  // namespace trainyard
