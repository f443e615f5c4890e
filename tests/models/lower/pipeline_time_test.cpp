// Lowered steps with constant kernel times reproduce textbook pipelines on the real engines
// (oracles 31, 32, 34, 36, 37, 39, 40, 81). F = 1 and B = 2 per rank unless stated otherwise.
#include <gtest/gtest.h>

#include <numeric>

#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

Step run(const PipelineCase& shape, double transfer = 0.0, const std::string& engine = "ideal") {
  const double chunks = static_cast<double>(shape.chunks);
  const CallModel communication(
      [=](const Call& call) { return op_of(call) == CollectiveOp::SendRecv ? transfer : 0.0; });
  return replay(lower(pipeline_plan(shape)), communication,
                core_seconds(1.0 / chunks, 2.0 / chunks), {.engine = engine});
}

double makespan(const PipelineCase& shape, double transfer = 0.0,
                const std::string& engine = "ideal") {
  return run(shape, transfer, engine).timeline.makespan_s;
}

struct Textbook {
  PipelineCase shape;
  double transfer = 0.0;
  double makespan = 0.0;
};
const std::vector<Textbook> kTextbook = {
    {{"naive", 4, 8}, 0.0, 96.0},
    {{"gpipe", 4, 8}, 0.0, 33.0},
    {{"1f1b", 4, 8}, 0.0, 33.0},
    {{"1f1b", 8, 32}, 0.0, 117.0},
    {{"interleaved_1f1b", 4, 8, 2}, 0.0, 28.5},
    {{"interleaved_1f1b", 4, 8, 4}, 0.0, 26.25},
    {{"interleaved_1f1b", 8, 16, 2}, 0.0, 58.5},
    {{"interleaved_1f1b", 4, 10, 2, 5}, 0.0, 34.5},
    {{"1f1b", 4, 8}, 0.25, 37.0},
    {{"gpipe", 4, 8}, 0.25, 34.5},
    {{"interleaved_1f1b", 4, 8, 2}, 0.1, 29.9},
    {{"1f1b", 4, 1}, 0.25, 13.5},
    {{"naive", 4, 1}, 0.25, 13.5},
};

// Does every schedule have the textbook's makespan on both engines?
TEST(PipelineTime, Textbook) {
  for (const std::string engine : {"ideal", "simgrid"}) {
    for (const Textbook& row : kTextbook) {
      SCOPED_TRACE(row.shape.schedule + " " + engine);
      EXPECT_NEAR(makespan(row.shape, row.transfer, engine), row.makespan, 1e-9 * row.makespan);
    }
  }
}

// Does 1F1B expose the messages of the formula? It pays [(4p-6) + (m/p-1)*2(p-1)]c for messages of
// c (oracle 34).
TEST(PipelineTime, MessagesOfPlain1F1B) {
  for (const std::int64_t p : {2, 3, 4, 6}) {
    for (const std::int64_t groups : {1, 2, 3}) {
      const PipelineCase shape{"1f1b", p, groups * p};
      const double extra = static_cast<double>((4 * p - 6) + (groups - 1) * 2 * (p - 1)) * 0.05;
      EXPECT_NEAR(makespan(shape, 0.05), makespan(shape) + extra, 1e-9) << p << " " << groups;
    }
  }
}

// A lowered step runs the two steps of an overlapped pair one after the other.
ScheduleLists one_by_one(ScheduleLists lists) {
  for (auto& list : lists) {
    for (ScheduleStep& step : list) step.overlapped = false;
  }
  return lists;
}

// Does the engine agree with the plain walk over the lists? Both execute the same schedule.
TEST(PipelineTime, EqualsTheWalkOverTheLists) {
  std::size_t shapes = 0;
  for (const Schedule* schedule : schedules()) {
    for (const std::int64_t p : {1, 2, 3, 4}) {
      for (const std::int64_t m : {1, 2, 4, 6, 9}) {
        for (const std::int64_t v : {1, 2, 3}) {
          const PipelineShape shape{.stages = p, .microbatches = m, .chunks = v};
          if (schedule->refusal(shape)) continue;
          const auto stages = static_cast<std::size_t>(p);
          // The lowered backward takes all its time in the attention core, none of it in W.
          const StepDurations durations{.forward_s = std::vector<double>(stages, 1.0),
                                        .backward_s = std::vector<double>(stages, 2.0),
                                        .weight_s = std::vector<double>(stages, 0.0),
                                        .transfer_s = 0.125};
          const PipelineCase lowered{std::string(schedule->name()), p, m, v};
          const PipelineShape planned = pipeline_shape(pipeline_plan(lowered));
          const double wanted =
              play_schedule(one_by_one(all_steps(*schedule, planned)), planned, durations)
                  .makespan_s;
          EXPECT_NEAR(makespan(lowered, 0.125), wanted, 1e-9 * wanted)
              << schedule->name() << " p " << p << " m " << m << " v " << v;
          ++shapes;
        }
      }
    }
  }
  // Nine schedules with one chunk, or with two in a V, take all 20 numbers of ranks and
  // microbatches.
  EXPECT_GE(shapes, 9U * 20U);
}

// Are unequal stages timed correctly: stages of two layers among stages of one (oracle 36)?
TEST(PipelineTime, UnequalStages) {
  TrainingPlan plan = pipeline_plan({"1f1b", 4, 8});
  plan.architecture.layers = 5;
  const auto seconds = [&plan] {
    return replay(lower(plan), free_model(), core_seconds(1.0, 2.0)).timeline.makespan_s;
  };
  plan.parallelism.last_stage_layers = 2;
  EXPECT_DOUBLE_EQ(seconds(), 57.0);
  plan.parallelism.last_stage_layers = {};
  plan.parallelism.first_stage_layers = 2;
  EXPECT_DOUBLE_EQ(seconds(), 51.0);
}

// Does one stage take the sum of its work?
TEST(PipelineTime, OneStageDoesItsWork) {
  EXPECT_DOUBLE_EQ(makespan({"1f1b", 1, 6}, 0.5), 18.0);
  EXPECT_DOUBLE_EQ(makespan({"gpipe", 1, 6}, 0.5), 18.0);
  EXPECT_NEAR(makespan({"interleaved_1f1b", 1, 6, 2}, 0.5), 18.0, 1e-12)
      << "chunks of one rank send each other nothing";
}

// Do twice as many microbatches add exactly their work?
TEST(PipelineTime, TwiceTheMicrobatchesAddTheirWork) {
  for (const std::int64_t p : {1, 2, 4}) {
    for (const std::int64_t m : {1, 4, 9}) {
      EXPECT_DOUBLE_EQ(makespan({"1f1b", p, 2 * m}),
                       makespan({"1f1b", p, m}) + 3.0 * static_cast<double>(m));
    }
  }
}

// Do busy time and bubble fill the step? Those of all ranks fill p makespans. The share of the
// bubble is (p-1)/m, and with v chunks a v-th of it (oracles 32 and 40).
TEST(PipelineTime, BusyAndBubbleFillTheStep) {
  for (const auto& [shape, share] :
       std::vector<std::pair<PipelineCase, double>>{{{"1f1b", 4, 8}, 3.0 / 8.0},
                                                    {{"gpipe", 4, 8}, 3.0 / 8.0},
                                                    {{"interleaved_1f1b", 4, 8, 2}, 3.0 / 16.0},
                                                    {{"interleaved_1f1b", 4, 8, 4}, 3.0 / 32.0}}) {
    const Step step = run(shape);
    for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
      const Breakdown shares = breakdown(step.workload, step.partition, step.timeline, rank);
      const double work = 3.0 * static_cast<double>(shape.microbatches);
      EXPECT_NEAR(shares.of(TimeShare::Compute), work, 1e-9);
      EXPECT_NEAR(shares.total(), step.timeline.makespan_s, 1e-9);
      const double rest = shares.total() - shares.of(TimeShare::Compute);
      EXPECT_NEAR(rest / work, share, 1e-9) << shape.schedule << " " << rank;
    }
  }
}

// Do the lower bounds hold? The makespan is at least one microbatch through all stages, and at
// least the work of the busiest rank (oracle 39).
TEST(PipelineTime, LowerBounds) {
  for (const Textbook& row : kTextbook) {
    const auto p = static_cast<double>(row.shape.pipeline);
    const auto v = static_cast<double>(row.shape.chunks);
    const double time = makespan(row.shape, row.transfer);
    EXPECT_GE(time, 3.0 * p + 2.0 * (p * v - 1.0) * row.transfer - 1e-9);
    EXPECT_GE(time, 3.0 * static_cast<double>(row.shape.microbatches) - 1e-9);
  }
}

// Do dispatch and combine hide under the other microbatch? Four calls of 0.2 s per layer and
// microbatch run concurrently with 1 + 2 s of attention. Blocks of a backward and the forward
// before it hide some calls of each under the computation of the other, and lose no work. (The
// experts take no time here, so calls of both sides often coincide.)
TEST(OverlappedExchanges, HideUnderTheOtherMicrobatch) {
  const CallModel communication(
      [](const Call& call) { return op_of(call) == CollectiveOp::AllToAll ? 0.2 : 0.0; });
  for (const Parallelism& parallelism :
       {Parallelism{.data = 4, .expert = 4, .expert_tensor = 1}, Parallelism{.pipeline = 2,
                                                                 .interleave = 2,
                                                                 .data = 2,
                                                                 .expert = 2,
                                                                 .expert_tensor = 1,
                                                                 .schedule = "interleaved_1f1b",
                                                                 .zero_stage = 1}}) {
    Architecture model = small_llama(4);
    model.experts = 8;
    model.experts_per_token = 2;
    model.expert_ffn = 128;
    TrainingPlan plan = plan_of(model, parallelism, 8);
    const Workload plain = lower(plan);
    plan.experts.overlap_dispatch = true;
    const Workload overlapped = lower(plan);
    EXPECT_EQ(executed_flops(overlapped).value(), executed_flops(plain).value());
    for (const Program& program : overlapped.programs)
      for (const std::int64_t left : unreturned_bytes(overlapped, program)) EXPECT_EQ(left, 0);
    const double before = replay(plain, communication, core_seconds(1.0, 2.0)).timeline.makespan_s;
    const double after =
        replay(overlapped, communication, core_seconds(1.0, 2.0)).timeline.makespan_s;
    const double layers = 4.0 / static_cast<double>(parallelism.pipeline);
    const double exchanges = 8.0 * layers * 4 * 0.2;  // of a rank
    EXPECT_GT(after, 8.0 * layers * 3.0);
    EXPECT_LT(after, before - 0.15 * exchanges) << parallelism.pipeline;
  }
}

}  // namespace
}  // namespace trainyard
