// Repeated microbatches are written once as a block. The step must equal one with all of them
// written out.
#include <gtest/gtest.h>

#include "models/lower/recording.hpp"
#include "same_program.hpp"
#include "sim/workload/program_order.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// Blocks must lead to the same order as an analysis of every operation.
void expect_same_order(const Program& once, const Program& out) {
  const ProgramOrder order(once);
  const ProgramOrder known(out);
  ASSERT_EQ(order.columns(), known.columns());
  for (OpIndex op = 0; op < out.operations.size(); ++op)
    for (std::size_t column = 0; column < known.columns(); ++column)
      ASSERT_EQ(order.after(op, column), known.after(op, column)) << op << " " << column;
}

// Do borders differ where two operations are one operation at one of them only, whichever two?
TEST(RecordingBorder, IsEquivalentWhereTheSameOperationsAreEqual) {
  const auto border = [](std::vector<OpIndex> outside) {
    return RecordingBorder{.next = 9, .outside = std::move(outside), .streams = {0, 0, 1}};
  };
  EXPECT_TRUE(border({5, 5, 6}).equivalent(border({2, 2, 4})));
  EXPECT_FALSE(border({5, 5, 6}).equivalent(border({2, 3, 4})));
  EXPECT_FALSE(border({5, 7, 5}).equivalent(border({2, 3, 4})));
  EXPECT_FALSE(border({5, 7, 7}).equivalent(border({2, 3, 4})));
}

struct Words {
  std::size_t written = 0;
  std::size_t operations = 0;
};

// Counts the operations of all programs, after a check that they are correct.
Words words_of(const TrainingPlan& plan) {
  const ScheduleLists lists = step_lists(plan);
  const SteppedWorkload once = lower_steps(plan, lists);
  const SteppedWorkload out = lower_steps(plan, lists, Microbatches::WrittenOut);
  EXPECT_EQ(once.begins, out.begins);
  EXPECT_EQ(once.workload.names, out.workload.names);
  EXPECT_EQ(once.workload.kernels, out.workload.kernels);
  EXPECT_EQ(once.workload.calls, out.workload.calls);
  EXPECT_EQ(once.workload.programs.size(), out.workload.programs.size());
  Words words;
  for (std::size_t i = 0; i < out.workload.programs.size(); ++i) {
    SCOPED_TRACE(out.workload.programs[i].name);
    const Program& program = once.workload.programs[i];
    expect_same(program, out.workload.programs[i]);
    expect_same_order(program, out.workload.programs[i]);
    words.written += program.operations.written().size();
    words.operations += program.operations.size();
    EXPECT_EQ(out.workload.programs[i].operations.written().size(), program.operations.size());
  }
  return words;
}

// Is every schedule the same with fewer written operations?
TEST(RecordedBlock, EveryScheduleIsTheSameInFewerWords) {
  for_each_schedule([](const TrainingPlan& plan) {
    const Words words = words_of(plan);
    EXPECT_LT(2 * words.written, words.operations);
  });
}

// Are replicas and shards the same?
TEST(RecordedBlock, ReplicasAndShardsAreTheSame) {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    for (const bool overlap : {true, false}) {
      SCOPED_TRACE(zero);
      TrainingPlan plan = plan_of(small_gpt(8),
                                  {.tensor = 2,
                                   .sequence_parallel = overlap,
                                   .pipeline = 2,
                                   .data = 4,
                                   .zero_stage = zero,
                                   .overlap_grad_reduce = overlap,
                                   .overlap_param_gather = overlap},
                                  12);
      const Words words = words_of(plan);
      if (zero < 2) {
        EXPECT_LT(2 * words.written, words.operations);
      }
    }
  }
}

// Are gradients that a kernel accumulates the same? The first microbatch writes its gradients, the
// others add theirs.
TEST(RecordedBlock, GradientsAddedUpByAKernelAreTheSame) {
  for (const std::string schedule : {"1f1b", "zb_h1"}) {
    TrainingPlan plan = plan_of(
        small_gpt(8), {.pipeline = 2, .data = 2, .schedule = schedule, .zero_stage = 1}, 12);
    plan.gradient_passes.accumulate = true;
    const Words words = words_of(plan);
    EXPECT_LT(2 * words.written, words.operations);
  }
}

// Are recomputation, context ranks, experts and MTP layers the same?
TEST(RecordedBlock, RecomputedContextsExpertsAndMoreTokensAreTheSame) {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    TrainingPlan plan = plan_of(small_llama(8), {.pipeline = 2, .data = 2, .context = 2}, 12);
    plan.training.recompute = recompute;
    const Words context = words_of(plan);
    EXPECT_LT(2 * context.written, context.operations);
    plan = plan_of(small_moe(8), {.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1}, 12);
    plan.training.recompute = recompute;
    plan.training.mtp_layers = 1;
    const Words experts = words_of(plan);
    EXPECT_LT(2 * experts.written, experts.operations);
  }
}

// Are overlapped pairs the same with fewer written operations? Pairs are equal if both microbatches
// are later by the same number; the first and the last backward of a chunk differ.
TEST(RecordedBlock, OverlappedPairsAreTheSameInFewerWords) {
  TrainingPlan overlapped = plan_of(small_moe(8),
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
    overlapped.parallelism.schedule = schedule;
    overlapped.experts.overlap_dispatch = schedule == "interleaved_1f1b";
    for (const bool added : {false, true}) {
      overlapped.gradient_passes.accumulate = added;
      const Words words = words_of(overlapped);
      EXPECT_LT(2 * words.written, words.operations);
    }
  }
}

// Are microbatches that differ the same? Drawn loads, documents and offloaded tensors are written
// out, next to others that are not.
TEST(RecordedBlock, WhatDiffersFromMicrobatchToMicrobatchIsTheSame) {
  TrainingPlan uneven =
      plan_of(small_moe(4), {.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1}, 6);
  uneven.experts.routing = RoutingKind::Zipf;
  uneven.experts.zipf_exponent = 0.6;
  words_of(uneven);
  TrainingPlan packed = plan_of(small_llama(4), {.pipeline = 2}, 6);
  packed.documents = {.kind = DocumentKind::List, .lengths = {64, 32, 16, 16}};
  words_of(packed);
  TrainingPlan stored = plan_of(small_llama(4), {.pipeline = 2}, 6);
  stored.offload = {.activations = 1.0};
  stored.host.bandwidth = BytesPerSecond{1e9};
  words_of(stored);
}

// Does a block without computation leave the last computation as it is, wherever it is repeated?
TEST(RecordedBlock, OneWithoutComputationLeavesTheLastComputation) {
  Workload workload;
  Interner interner(workload);
  ProgramBuilder build(interner, "stage", 0);
  BlockRecorder recorder(build);
  const OpIndex last =
      build.compute("first", MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = 8});
  build.tag({.part = StepPart::Forward, .microbatch = 0});
  RecordedBlock block = recorder.begin_block(recorder.border({}));
  build.delay("wait", Stream::HostWork, Seconds{1.0}, {});
  ASSERT_TRUE(recorder.end_block(block, {}));
  for (std::int32_t microbatch = 1; microbatch < 3; ++microbatch) {
    build.tag({.part = StepPart::Forward, .microbatch = microbatch});
    ASSERT_TRUE(recorder.instantiate(block, recorder.border({})));
    EXPECT_EQ(build.last_compute(), last);
  }
}

// Is an effect of one microbatch not applied to the others? An effect that is added later to one
// microbatch separates it from the equal ones.
TEST(RecordedBlock, AnEffectOfOneMicrobatchIsNoneOfTheOthers) {
  for (const OpIndex changed : {0U, 2U, 4U}) {
    SCOPED_TRACE(changed);
    Workload workload;
    Interner interner(workload);
    ProgramBuilder build(interner, "stage", 0);
    BlockRecorder recorder(build);
    const MemoryBound kernel{.kind = MemoryBoundKind::Elementwise, .bytes = 8};
    build.compute("first", kernel);
    RecordedBlock block;
    for (std::int32_t microbatch = 0; microbatch < 3; ++microbatch) {
      build.tag({.part = StepPart::Forward, .microbatch = microbatch});
      if (microbatch > 0) {
        ASSERT_TRUE(recorder.instantiate(block, recorder.border({})));
        continue;
      }
      block = recorder.begin_block(recorder.border({}));
      const OpIndex begin = build.compute("a", kernel);
      build.memory().allocate(begin, Category::Activations, 5);
      build.memory().release(build.compute("b", kernel), Category::Activations, 5);
      ASSERT_TRUE(recorder.end_block(block, {}));
      EXPECT_TRUE(block.closed);
    }
    const OpIndex target = 1 + changed;
    build.memory().allocate(target, Category::Logits, 3);
    const Program program = build.take();
    ASSERT_EQ(program.operations.size(), 7U);
    EXPECT_EQ(program.operations.written().size(), 3U);
    EXPECT_EQ(program.single_effects.size(), 1U);
    for (OpIndex op = 1; op < 7; ++op) {
      const Operation operation = program.operations[op];
      EXPECT_EQ(operation.microbatch, static_cast<std::int32_t>((op - 1) / 2));
      const auto effects = program.effects_of(op);
      ASSERT_EQ(effects.size(), op == target ? 2U : 1U) << op;
      EXPECT_EQ(effects.front().bytes, op % 2 == 1 ? 5 : -5) << op;
      EXPECT_EQ(effects.back().bytes, op == target ? 3 : effects.front().bytes);
    }
  }
}

}  // namespace
}  // namespace trainyard
