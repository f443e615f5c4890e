// Repeated layers and microbatches: they differ only in their numbers.
#include <gtest/gtest.h>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// Are layers that differ written out? No layer is replaced by another one with a different shape.
TEST(AlikeLayers, LayersThatDifferAreWrittenOut) {
  TrainingPlan plan = pipeline_plan(
      {.schedule = "1f1b", .pipeline = 1, .microbatches = 3, .chunks = 1, .group_size = 0});
  plan.architecture.layers = 6;
  plan.architecture.window = 8;
  plan.architecture.full_attention_every = 2;
  const Workload workload = lower(plan);
  std::size_t kernels = 0;
  for (const Operation& op : workload.programs.at(0).operations) {
    if (op.kind != OpKind::Compute) continue;
    const auto* attention = std::get_if<Attention>(&workload.kernels[op.payload]);
    if (attention == nullptr) continue;
    ++kernels;
    const std::int64_t s = plan.training.sequence_length;
    const bool whole = attention->pairs == s * (s + 1) / 2;
    EXPECT_EQ(whole, op.layer % 2 == 1) << op.layer;
  }
  EXPECT_EQ(kernels, 2 * 3 * 6U);
}

// Does a microbatch repeat the one before it, operation by operation? This goes through the whole
// lowering, in the steady state of a pipeline.
TEST(AlikeLayers, MicrobatchesOfAStepRepeat) {
  TrainingPlan plan = pipeline_plan(
      {.schedule = "1f1b", .pipeline = 2, .microbatches = 8, .chunks = 1, .group_size = 0});
  const Workload workload = lower(plan);
  for (const Program& program : workload.programs) {
    std::map<std::int32_t, std::vector<OpIndex>> of_microbatch;
    for (OpIndex index = 0; index < program.operations.size(); ++index) {
      const Operation& op = program.operations[index];
      if (op.part == StepPart::Forward) of_microbatch[op.microbatch].push_back(index);
    }
    for (std::int32_t microbatch = 4; microbatch < 8; ++microbatch) {
      const auto& before = of_microbatch.at(microbatch - 1);
      const auto& now = of_microbatch.at(microbatch);
      ASSERT_EQ(before.size(), now.size());
      for (std::size_t i = 0; i < now.size(); ++i) {
        const Operation& a = program.operations[before[i]];
        const Operation& b = program.operations[now[i]];
        EXPECT_EQ(std::tie(a.kind, a.payload, a.layer), std::tie(b.kind, b.payload, b.layer));
        EXPECT_EQ(program.dependencies_of(before[i]).size(),
                  program.dependencies_of(now[i]).size());
      }
    }
  }
}

// Are names and calls numbered in the order of the programs? Two threads write a long step, and the
// numbers must be those of one thread.
TEST(AlikeLayers, NumbersComeInTheOrderOfThePrograms) {
  TrainingPlan plan = pipeline_plan(
      {.schedule = "1f1b", .pipeline = 4, .microbatches = 128, .chunks = 1, .group_size = 0});
  plan.architecture.layers = 12;
  const Workload workload = lower(plan);
  ASSERT_EQ(workload.programs.size(), 4U);
  std::uint32_t kernels = 0;
  std::uint32_t names = 0;
  std::uint32_t calls = 0;
  for (const Program& program : workload.programs) {
    for (const Operation& op : program.operations) {
      EXPECT_LE(op.name, names);
      names = std::max<std::uint32_t>(names, op.name + 1U);
      std::uint32_t& payloads = op.kind == OpKind::Compute ? kernels : calls;
      EXPECT_LE(op.payload, payloads);
      payloads = std::max(payloads, op.payload + 1);
    }
  }
  EXPECT_EQ(kernels, workload.kernels.size());
  EXPECT_EQ(names, workload.names.size());
  EXPECT_EQ(calls, workload.calls.size());
}

}  // namespace
}  // namespace trainyard
