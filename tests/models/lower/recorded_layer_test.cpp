// Is a layer that is copied what its author would have written again, whatever it
// was to wait for, and is it left alone where the author would have written something else?
#include <gtest/gtest.h>

#include "models/lower/recording.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr std::int32_t kMicrobatches = 3;
constexpr std::int32_t kLayers = 4;

Call call_of(CollectiveOp op) { return {.op = op, .bytes = 1024}; }

// A product whose operand is gathered, and another beside which the result is joined.
void write_layer(ProgramBuilder& build) {
  const OpIndex first = build.next();
  const OpIndex gather = build.collective("gather", Stream::Tensor, Slot::Tensor,
                                          call_of(CollectiveOp::AllGather), {build.last_compute()});
  build.wait_for(gather);
  const OpIndex product = build.compute("product", Gemm{.m = 2, .n = 3, .k = 5});
  build.wait_for(build.collective("join", Stream::Tensor, Slot::Tensor,
                                  call_of(CollectiveOp::ReduceScatter), {product}));
  const Tags tags = build.tags();
  Tags again = tags;
  again.part = StepPart::Recompute;
  build.tag(again);
  build.compute("again", Gemm{.m = 7, .n = 3, .k = 5});
  build.tag(tags);
  build.wait_for(build.collective("other", Stream::Data, Slot::Data,
                                  call_of(CollectiveOp::AllReduce), {build.last_compute()}));
  build.allocate(first, Category::Activations, 64);
  build.release(build.last_compute(), Category::Activations, 64);
}

struct Written {
  Workload workload;
  Program program;
  int copies = 0;
};

// Layers of microbatches, each of which begins with a message and ends with one.
Written written(bool copies) {
  Written result;
  Interner interner(result.workload);
  ProgramBuilder build(interner, "stage", 0);
  std::vector<RecordedLayer> layers;
  for (std::int32_t microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
    build.tag({.part = StepPart::Forward, .microbatch = microbatch});
    build.wait_for(build.recv("recv", Stream::RecvForward, Slot::RecvForward,
                              call_of(CollectiveOp::SendRecv), {}));
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
      build.tag({.part = StepPart::Forward, .microbatch = microbatch, .layer = layer});
      const auto repeated = [&](const RecordedLayer& known) { return build.repeat(known); };
      if (copies && std::ranges::any_of(layers, repeated)) {
        ++result.copies;
        continue;
      }
      layers.push_back(build.begin_layer());
      write_layer(build);
      build.end_layer(layers.back());
    }
    build.send("send", Stream::SendForward, Slot::SendForward, call_of(CollectiveOp::SendRecv),
               {build.last_compute()});
  }
  result.program = build.take();
  return result;
}

TEST(RecordedLayer, IsWrittenAgainByCopying) {
  const Written plain = written(false);
  const Written copied = written(true);
  // The first layer of all has no computation before it; that of a later microbatch waits for its
  // message and for what the last layer left; other layers for the latter alone.
  EXPECT_EQ(copied.copies, kMicrobatches * kLayers - 3);
  ASSERT_EQ(copied.program.operations.size(), plain.program.operations.size());
  for (OpIndex op = 0; op < plain.program.operations.size(); ++op) {
    SCOPED_TRACE(op);
    const Operation& a = plain.program.operations[op];
    const Operation& b = copied.program.operations[op];
    EXPECT_EQ(std::tie(a.kind, a.stream, a.part, a.name, a.slot, a.payload, a.microbatch, a.layer),
              std::tie(b.kind, b.stream, b.part, b.name, b.slot, b.payload, b.microbatch, b.layer));
    EXPECT_TRUE(
        std::ranges::equal(plain.program.dependencies_of(op), copied.program.dependencies_of(op)));
    const auto effects_a = plain.program.effects_of(op);
    const auto effects_b = copied.program.effects_of(op);
    ASSERT_EQ(effects_a.size(), effects_b.size());
    for (std::size_t i = 0; i < effects_a.size(); ++i) {
      EXPECT_EQ(effects_a[i].bytes, effects_b[i].bytes);
      EXPECT_EQ(effects_a[i].at_end, effects_b[i].at_end);
    }
  }
}

TEST(RecordedLayer, IsCopiedAcrossAnOverlapButNotUnderAnotherTag) {
  Workload workload;
  Interner interner(workload);
  ProgramBuilder build(interner, "stage", 0);
  const auto write = [&] {
    RecordedLayer layer = build.begin_layer();
    write_layer(build);
    build.end_layer(layer);
    return layer;
  };
  write();
  const OpIndex first = build.next();
  const RecordedLayer second = write();
  const OpIndex then = build.next();
  write();
  build.tag({.part = StepPart::Recompute});
  EXPECT_FALSE(build.repeat(second));
  build.tag({});
  build.overlap(first, then);
  const OpIndex end = build.next();
  ASSERT_TRUE(build.repeat(second)) << "the overlap changed the program, not the recording";
  ASSERT_EQ(build.next(), end + (then - first));
  const Program program = build.take();
  for (OpIndex i = 0; i < then - first; ++i) {
    const Operation& written = program.operations[end - (then - first) + i];
    const Operation& copy = program.operations[end + i];
    EXPECT_EQ(std::tie(written.kind, written.name, written.payload),
              std::tie(copy.kind, copy.name, copy.payload));
    const auto inputs = program.dependencies_of(end - (then - first) + i);
    const auto copied = program.dependencies_of(end + i);
    EXPECT_TRUE(
        std::ranges::equal(inputs, copied, {}, [&](OpIndex op) { return op + then - first; }));
  }
}

// Of layers that differ by their numbers none is taken for another.
TEST(RecordedLayer, LayersThatDifferAreWrittenOut) {
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

// Through the whole lowering: a microbatch in the middle of a pipeline's steady state repeats the
// one before it, operation by operation.
TEST(RecordedLayer, MicrobatchesOfAStepRepeat) {
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

// A long step is written by two threads: it is numbered as one would have.
TEST(RecordedLayer, NumbersComeInTheOrderOfThePrograms) {
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
