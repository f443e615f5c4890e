// Schedules with split backwards, V-shaped and bidirectional placements as lowered steps: time,
// memory and FLOPs. Every schedule of the registry is run.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

std::vector<TrainingPlan> plans_of_all_schedules(const Architecture& architecture,
                                                 const Parallelism& given) {
  std::vector<TrainingPlan> plans;
  for (const Schedule* schedule : schedules()) {
    Parallelism p = given;
    p.schedule = std::string(schedule->name());
    p.interleave = schedule->usual_chunks();
    plans.push_back(plan_of(architecture, p, 8));
  }
  return plans;
}

// F = 1, B = W = 1 per layer: the weight gradient of the QKV GEMM represents W.
KernelSeconds split_seconds() {
  return [](const Kernel& kernel) {
    if (std::get_if<Attention>(&kernel) != nullptr) return 1.0;
    const auto* gemm = std::get_if<Gemm>(&kernel);
    return gemm != nullptr && gemm->pass == GemmPass::WeightGrad && gemm->m == 512 && gemm->n == 256
               ? 1.0
               : 0.0;
  };
}

struct PublishedStep {
  PipelineCase shape;
  double seconds = 0.0;
};

// Does the engine reproduce the published makespans (oracles 31 and 35)? DualPipe's pairs run one
// after the other here, which is their time without a gain from overlap.
TEST(ZeroBubbleStep, PublishedTimes) {
  for (const PublishedStep& row :
       {PublishedStep{{"zb_h1", 4, 8}, 27.0}, PublishedStep{{"zb_h1", 8, 16}, 55.0},
        PublishedStep{{"zb_h2", 4, 8}, 27.0}, PublishedStep{{"zb_auto", 4, 8}, 27.0},
        PublishedStep{{"zb_v", 4, 8, 2}, 51.0}, PublishedStep{{"zb_v", 2, 4, 2}, 25.0},
        PublishedStep{{"v_half", 4, 8, 2}, 57.0}, PublishedStep{{"v_min", 4, 8, 2}, 59.0}}) {
    for (const std::string engine : {"ideal", "simgrid"}) {
      TrainingPlan plan = pipeline_plan(row.shape);
      plan.architecture.ffn = 384;  // so that no other GEMM has the shape of QKV's
      const Step step = replay(lower(plan), free_model(), split_seconds(), {.engine = engine});
      if (row.shape.schedule == "zb_auto") {
        EXPECT_LE(step.timeline.makespan_s, 33.0) << "planned with the layer's own proportions";
        continue;
      }
      EXPECT_NEAR(step.timeline.makespan_s, row.seconds, 1e-9 * row.seconds)
          << row.shape.schedule << " " << engine;
    }
  }
}

// Are the FLOPs independent of the schedule? All ranks together run the same kernels in any order.
TEST(ZeroBubbleStep, FlopsDoNotDependOnTheSchedule) {
  for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
    for (const Architecture& architecture : {small_llama(8), small_gpt(8)}) {
      std::set<double> flops;
      for (TrainingPlan& plan : plans_of_all_schedules(
               architecture, {.tensor = 2, .sequence_parallel = true, .pipeline = 4, .data = 2})) {
        plan.training.recompute = recompute;
        flops.insert(executed_flops(lower(plan)).value());
      }
      EXPECT_EQ(flops.size(), 1U);
    }
  }
}

// Is all memory of a step freed, in every category (oracle 60)?
TEST(ZeroBubbleStep, MemoryIsGivenBack) {
  for (const TrainingPlan& plan : plans_of_all_schedules(
           small_gpt(8), {.tensor = 2, .sequence_parallel = true, .pipeline = 4, .data = 2})) {
    const Workload workload = lower(plan);
    for (const Program& program : workload.programs) {
      EXPECT_FALSE(program.effects.empty());
      for (const std::int64_t bytes : unreturned_bytes(workload, program))
        EXPECT_EQ(bytes, 0) << plan.parallelism.schedule;
    }
  }
}

// Does every schedule run to its end with tensor and data parallelism, with and without a
// distributed optimizer and overlap?
TEST(ZeroBubbleStep, RunsWithAllTheOthers) {
  for (const std::int64_t zero : {0, 1}) {
    for (const bool overlap : {true, false}) {
      for (TrainingPlan& plan :
           plans_of_all_schedules(small_gpt(8), {.tensor = 2,
                                                .pipeline = 4,
                                                .data = 2,
                                                .zero_stage = zero,
                                                .overlap_grad_reduce = overlap,
                                                .overlap_param_gather = overlap})) {
        const Step step = replay(lower(plan), CallModel([](const Call&) { return 0.01; }),
                                 core_seconds(1.0, 2.0));
        EXPECT_GT(step.timeline.makespan_s, 24.0) << plan.parallelism.schedule;
        EXPECT_LT(step.timeline.makespan_s, 200.0) << plan.parallelism.schedule;
      }
    }
  }
}

// Do blocking sends work with split backwards? A weight gradient between two exchanges of messages
// must not deadlock neighbouring stages.
TEST(ZeroBubbleStep, BlockingSendsOfSplitBackwards) {
  for (const std::string schedule : {"zb_h1", "zb_h2", "zb_auto"}) {
    TrainingPlan plan = pipeline_plan({schedule, 4, 8});
    plan.parallelism.overlap_p2p = false;
    const Step step =
        replay(lower(plan), CallModel([](const Call&) { return 0.01; }), core_seconds(1.0, 1.0));
    EXPECT_GT(step.timeline.makespan_s, 16.0) << schedule;
  }
  TrainingPlan vee = pipeline_plan({"zb_v", 4, 8, 2});
  vee.parallelism.overlap_p2p = false;
  EXPECT_THROW((void)lower(vee), InputError);
}

std::int64_t weights_of(const Program& program) {
  std::int64_t bytes = 0;
  for (const auto& resident : program.resident) {
    if (resident.category == static_cast<std::uint16_t>(Category::Weights)) bytes += resident.bytes;
  }
  return bytes;
}

// Are the weights of each placement correct? Both directions of DualPipe hold every stage: twice
// the weights, evenly on the mirrored ranks. A V placement holds each once, and a tied embedding
// once if both ends are on rank 0.
TEST(ZeroBubbleStep, WeightsOfThePlacements) {
  std::map<std::string, std::int64_t> weights;
  for (const TrainingPlan& plan : plans_of_all_schedules(small_llama(8), {.pipeline = 4})) {
    std::int64_t sum = 0;
    const Workload workload = lower(plan);
    for (const Program& program : workload.programs) sum += weights_of(program);
    weights[plan.parallelism.schedule] = sum;
    if (plan.parallelism.schedule != "dualpipe") continue;
    EXPECT_EQ(weights_of(workload.programs[0]), weights_of(workload.programs[3]));
    EXPECT_EQ(weights_of(workload.programs[1]), weights_of(workload.programs[2]));
  }
  EXPECT_GE(weights.size(), 12U);
  EXPECT_TRUE(weights.contains("dualpipe"));
  EXPECT_GT(weights.at("1f1b"), 0);
  for (const auto& [schedule, bytes] : weights) {
    EXPECT_EQ(bytes, weights.at("1f1b") * (schedule == "dualpipe" ? 2 : 1)) << schedule;
  }
}

}  // namespace
}  // namespace trainyard
