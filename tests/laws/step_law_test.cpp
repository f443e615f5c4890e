// Laws of a whole step that hold for every model: bounds, scaling, and the remaining time if
// compute or communication costs nothing (oracles 77, 78, 80, 82, 84).
#include <gtest/gtest.h>

#include <numeric>

#include "sim/collectives/collective.hpp"
#include "tests/models/lower/step.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr double kExact = 1e-9;

// A machine with round figures: 100 TFLOP/s and 1 TB/s of memory.
double machine_seconds(const Kernel& kernel, double slower = 1.0) {
  return slower * std::max(flops(kernel).value() / 1e14, hbm_bytes(kernel).value() / 1e12);
}
KernelSeconds machine(double slower = 1.0) {
  return [slower](const Kernel& kernel) { return machine_seconds(kernel, slower); };
}

const std::vector<Parallelism> kLayouts = {
    {.tensor = 4, .sequence_parallel = true, .overlap_tensor = false},
    {.tensor = 2, .pipeline = 2, .data = 2},
    {.tensor = 2, .sequence_parallel = true, .pipeline = 4, .data = 2, .zero_stage = 1},
    {.pipeline = 4, .interleave = 2, .data = 2, .schedule = "interleaved_1f1b"}};

std::vector<TrainingPlan> layouts() {
  std::vector<TrainingPlan> plans;
  for (const Parallelism& layout : kLayouts) {
    for (const Architecture& model : {small_gpt(8), small_llama(8)}) {
      plans.push_back(with_rings(plan_of(model, layout, 4)));
    }
  }
  return plans;
}

testing::Shape fabric(const TrainingPlan& plan, double slower = 1.0) {
  return {.nodes = 1,
          .gpus = static_cast<std::uint32_t>(plan.world()),
          .nvlink = 1e11 / slower,
          .nic = 1e11 / slower,
          .launch_us = slower,
          .intra_us = 2.0 * slower,
          .inter_us = 5.0 * slower};
}

Step on_fabric(const TrainingPlan& plan, const std::string& engine, double slower = 1.0) {
  const Cluster cluster = testing::make_cluster(fabric(plan, slower));
  const AlgorithmModel communication(cluster);
  return replay_on(testing::make_cluster(fabric(plan, slower)), lower(plan), communication,
                   machine(slower), {.engine = engine});
}

// Do the bounds of a step hold? The ideal engine gives the critical path, and contention only adds
// time (oracle 77). A GPU and a link do at most one second of work per second (oracle 78).
TEST(StepLaw, Bounds) {
  for (const TrainingPlan& plan : layouts()) {
    const Step step = on_fabric(plan, "simgrid");
    const double time = step.timeline.makespan_s;
    EXPECT_GE(time, on_fabric(plan, "ideal").timeline.makespan_s * (1.0 - kExact));
    for (const Program& program : step.workload.programs) {
      double work = 0.0;
      for (const Operation& op : program.operations) {
        if (op.kind != OpKind::Compute) continue;
        work += machine_seconds(step.workload.kernels[program.kernel_of(op)]);
      }
      EXPECT_GT(work, 0.0);
      EXPECT_GE(time, work * (1.0 - kExact));
    }
    EXPECT_FALSE(step.timeline.links.empty());
    for (std::size_t link = 0; link < step.timeline.links.size(); ++link) {
      const Link& real = step.cluster->link(step.partition.links[link].representative);
      EXPECT_GE(time, step.timeline.links[link].bytes / real.capacity.value() * (1.0 - kExact));
    }
  }
}

// Is a step bounded by compute alone plus communication alone (oracle 80)? In the ideal engine a
// step is a longest path, so the whole is at most the sum; if everything is one flow, the two add
// up exactly.
TEST(StepLaw, ComputeAndCommunicationAlone) {
  std::size_t of_one_stage = 0;
  for (const TrainingPlan& plan : layouts()) {
    const Cluster cluster = testing::make_cluster(fabric(plan));
    const AlgorithmModel communication(cluster);
    const Workload workload = lower(plan);
    const double whole = on_fabric(plan, "ideal").timeline.makespan_s;
    const double compute = replay(workload, free_model(), machine()).timeline.makespan_s;
    const double exposed =
        replay_on(testing::make_cluster(fabric(plan)), workload, communication, [](const Kernel&) {
          return 0.0;
        }).timeline.makespan_s;
    EXPECT_GT(compute, 0.0);
    EXPECT_GT(exposed, 0.0);
    EXPECT_GE(whole, std::max(compute, exposed) * (1.0 - kExact));
    EXPECT_LE(whole, (compute + exposed) * (1.0 + kExact));
    const Parallelism& p = plan.parallelism;
    if (p.pipeline > 1 || p.data > 1) continue;
    EXPECT_FALSE(p.overlap_tensor);
    EXPECT_NEAR(whole, compute + exposed, kExact * whole);
    ++of_one_stage;
  }
  EXPECT_EQ(of_one_stage, 2U) << "both models on the first layout";
}

// Is weak scaling perfect on a network that costs nothing: twice the replicas, the same step
// (oracle 82)?
TEST(StepLaw, WeakScaling) {
  for (TrainingPlan plan : layouts()) {
    plan.parallelism.zero_stage = 0;
    const auto step_of = [&plan](std::int64_t replicas) {
      plan.parallelism.data = replicas;
      plan.training.global_batch_size = 4 * replicas;
      return replay(lower(plan), free_model(), machine()).timeline.makespan_s;
    };
    const double once = step_of(2);
    EXPECT_NEAR(step_of(4), once, kExact * once);
    EXPECT_NEAR(step_of(8), once, kExact * once);
  }
}

// Does every time stamp scale with k if every latency, 1/bandwidth and 1/FLOPS is multiplied by k
// (oracle 84)?
TEST(StepLaw, UnitsOfTime) {
  for (const TrainingPlan& plan : layouts()) {
    for (const std::string engine : {"ideal", "simgrid"}) {
      const Step once = on_fabric(plan, engine);
      for (const double k : {2.0, 3.0}) {
        const Step scaled = on_fabric(plan, engine, k);
        ASSERT_EQ(scaled.timeline.classes.size(), once.timeline.classes.size());
        double worst = 0.0;
        for (std::size_t rank = 0; rank < once.timeline.classes.size(); ++rank) {
          const OpTimes& a = once.timeline.classes[rank];
          const OpTimes& b = scaled.timeline.classes[rank];
          for (std::size_t op = 0; op < a.end_s.size(); ++op) {
            worst = std::max(worst, std::abs(b.end_s[op] - k * a.end_s[op]));
          }
        }
        EXPECT_LE(worst, kExact * k * once.timeline.makespan_s) << engine << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard
