// Dependencies of lowered steps: no step deadlocks or runs ahead of its data. Blocking messages are
// tested on many shapes, and no operation of a stage starts before its inputs have arrived.
#include <gtest/gtest.h>

#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// Every shape that a schedule accepts, up to six ranks of four chunks.
std::vector<PipelineCase> all_shapes() {
  std::vector<PipelineCase> shapes;
  for (const Schedule* schedule : schedules()) {
    for (std::int64_t p = 1; p <= 6; ++p) {
      for (const std::int64_t m : {1, 2, 3, 4, 6, 8, 12, 13}) {
        for (std::int64_t v = 1; v <= 4; ++v) {
          for (const std::int64_t group : {std::int64_t{0}, p + 1}) {
            if (group > 0 && v == 1) continue;
            const PipelineShape shape{
                .stages = p, .microbatches = m, .chunks = v, .group_size = group};
            if (schedule->refusal(shape)) continue;
            shapes.push_back({std::string(schedule->name()), p, m, v, group});
          }
        }
      }
    }
  }
  return shapes;
}

// Do blocking messages run without deadlock, and never faster than overlapped ones?
TEST(BlockingMessages, DoNotDeadlock) {
  const std::vector<PipelineCase> shapes = all_shapes();
  EXPECT_GT(shapes.size(), 150U);
  const CallModel communication([](const Call&) { return 0.125; });
  std::size_t replayed = 0;
  for (const PipelineCase& shape : shapes) {
    SCOPED_TRACE(::testing::Message()
                 << shape.schedule << " p " << shape.pipeline << " m " << shape.microbatches
                 << " v " << shape.chunks << " group " << shape.group_size);
    TrainingPlan plan = pipeline_plan(shape);
    if (placement_of(plan.parallelism) != StagePlacement::Wrap)
      continue;  // refused: pipelines in both directions
    const auto seconds = [&] {
      return replay(lower(plan), communication, core_seconds(1.0, 2.0)).timeline.makespan_s;
    };
    const double overlapped = seconds();
    plan.parallelism.overlap_p2p = false;
    EXPECT_GE(seconds(), overlapped - 1e-9) << "and blocking is never faster";
    ++replayed;
  }
  // Six schedules with one chunk take every number of ranks and microbatches, 48 shapes each.
  EXPECT_GE(replayed, 6U * 48U);
}

// A different time for each call and kernel, so that every order is visible.
double scattered(std::int64_t seed) {
  const auto mixed = static_cast<std::uint64_t>(seed) * 0x9E3779B97F4A7C15ULL;
  return 0.5 + static_cast<double>(mixed >> 40) / static_cast<double>(1 << 24);
}

Step scattered_step(const TrainingPlan& plan) {
  const CallModel communication([](const Call& call) {
    return scattered(bytes_of(call) * 8 + static_cast<std::int64_t>(op_of(call)));
  });
  const KernelSeconds seconds = [](const Kernel& kernel) {
    return scattered(static_cast<std::int64_t>(hbm_bytes(kernel).value()));
  };
  return replay(lower(plan), communication, seconds);
}

bool is_backward(const Operation& op) { return op.part != StepPart::Forward; }

// A forward or backward of one microbatch is a run of operations with its tags. Within it all later
// operations start after the receive, and the send starts after all earlier operations.
void expect_causal(const Step& step, std::size_t rank_class) {
  const Program& program = step.workload.programs[step.partition.ranks[rank_class].program];
  const OpTimes& times = step.timeline.classes[rank_class];
  std::int32_t microbatch = -1;
  bool backward = false;
  double received = 0.0;
  double latest_end = 0.0;
  std::size_t checked = 0;
  for_each_operation(step.workload, program, [&](const OperationView& view) {
    const Operation& op = view.op;
    if (op.microbatch < 0 || op.part == StepPart::GradSync) return;
    const bool new_step =
        op.microbatch != microbatch || is_backward(op) != backward || op.kind == OpKind::Recv;
    if (new_step) {
      microbatch = op.microbatch;
      backward = is_backward(op);
      received = 0.0;
      latest_end = 0.0;
    }
    ++checked;
    EXPECT_GE(times.start_s[view.index], received) << view.name;
    if (op.kind == OpKind::Send) {
      EXPECT_GE(times.start_s[view.index], latest_end) << view.name;
      return;
    }
    if (op.kind == OpKind::Recv) received = times.end_s[view.index];
    latest_end = std::max(latest_end, times.end_s[view.index]);
  });
  EXPECT_GT(checked, 0U);
}

void expect_causal(const TrainingPlan& plan) {
  const Step step = scattered_step(plan);
  for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) expect_causal(step, rank);
}

// Does no operation run ahead of its data, for every kind of model and layout?
TEST(Causality, NothingRunsAheadOfItsData) {
  for (const Architecture& model : {small_gpt(8), small_llama(8)}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const bool overlap_p2p : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
          TrainingPlan plan = plan_of(model,
                                      {.tensor = 2,
                                       .sequence_parallel = sequence_parallel,
                                       .pipeline = 4,
                                       .data = 2,
                                       .overlap_p2p = overlap_p2p},
                                      6);
          plan.training.recompute = recompute;
          expect_causal(plan);
          plan.parallelism.interleave = 2;
          plan.parallelism.schedule = "interleaved_1f1b";
          plan.training.global_batch_size = 16;
          expect_causal(plan);
        }
      }
    }
  }
}

// Are stages without layers lowered correctly? The first chunk may hold only the embedding, the
// last only the head, and a rank between them nothing.
TEST(Causality, StagesWithoutLayers) {
  for (const bool sequence_parallel : {false, true}) {
    TrainingPlan plan = plan_of(small_llama(6),
                                {.tensor = 2,
                                 .sequence_parallel = sequence_parallel,
                                 .pipeline = 4,
                                 .interleave = 2,
                                 .schedule = "interleaved_1f1b",
                                 .embedding_in_split = true,
                                 .loss_in_split = true},
                                8);
    ASSERT_EQ(layer_split(plan).front(), 0);
    expect_causal(plan);
    plan.parallelism = {.tensor = 2,
                        .sequence_parallel = sequence_parallel,
                        .pipeline = 3,
                        .first_stage_layers = 4,
                        .last_stage_layers = 2};
    ASSERT_EQ(layer_split(plan), (std::vector<std::int64_t>{4, 0, 2}));
    expect_causal(plan);
  }
}

// Is the optimizer the last operation on all streams? Streams of one kind never delay other ones:
// the optimizer waits for everything before it.
TEST(Causality, TheOptimizerIsLast) {
  for (const std::int64_t zero : {0, 1}) {
    for (const bool gather_early : {false, true}) {
      const TrainingPlan plan = plan_of(small_gpt(4),
                                        {.tensor = 2,
                                         .sequence_parallel = true,
                                         .pipeline = 2,
                                         .data = 2,
                                         .zero_stage = zero,
                                         .overlap_param_gather = gather_early},
                                        4);
      const Step step = scattered_step(plan);
      for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
        const Program& program = step.workload.programs[step.partition.ranks[rank].program];
        const OpTimes& times = step.timeline.classes[rank];
        double adam_start = -1.0;
        double latest = 0.0;
        int gathers_after = 0;
        for_each_operation(step.workload, program, [&](const OperationView& view) {
          if (view.name == "adam") {
            adam_start = times.start_s[view.index];
          } else if (view.op.part == StepPart::ParamSync && adam_start >= 0.0) {
            ++gathers_after;
            EXPECT_GE(times.start_s[view.index], adam_start);
          } else {
            EXPECT_LT(adam_start, 0.0) << view.name << " is issued after the optimizer";
            latest = std::max(latest, times.end_s[view.index]);
          }
        });
        EXPECT_GE(adam_start, latest);
        EXPECT_EQ(gathers_after > 0, zero == 1 && !gather_early);
      }
    }
  }
}

}  // namespace
}  // namespace trainyard
