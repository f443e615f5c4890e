// Ranks with different experts run programs of one template. The step must equal one with separate
// programs.
#include <gtest/gtest.h>

#include <set>

#include "sim/timeline/memory.hpp"
#include "sim/workload/program_templates.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan uneven_plan() {
  TrainingPlan plan =
      plan_of(small_moe(4),
              {.pipeline = 2, .data = 4, .expert = 4, .expert_tensor = 1, .zero_stage = 1}, 4);
  plan.experts.routing = RoutingKind::Zipf;
  plan.experts.zipf_exponent = 0.6;
  return plan;
}

// Every program with operations that name their kernels themselves.
Workload written_out(Workload workload) {
  for (Program& program : workload.programs) {
    for (Operation& op : program.operations.edit())
      if (op.kind == OpKind::Compute) op.payload = program.kernel_of(op);
    program.kernels.clear();
  }
  return workload;
}

Step played(Workload workload, bool folded) {
  const CallModel communication(
      [](const Call& call) { return 1e-9 * static_cast<double>(bytes_of(call)); });
  return replay(std::move(workload), communication,
                [](const Kernel& kernel) { return 1e-6 + 1e-12 * flops(kernel).value(); },
                {.fold = folded});
}

// Do the EP ranks of a stage differ only in their kernels?
TEST(SharedTemplates, PlacesOfAStageDifferInKernelsAlone) {
  const Workload workload = lower(uneven_plan());
  ASSERT_EQ(workload.programs.size(), 8U);  // four EP ranks in each of two stages
  const std::vector<std::uint32_t> templates = program_templates(workload.programs);
  EXPECT_EQ(std::set(templates.begin(), templates.end()), (std::set<std::uint32_t>{0, 4}));
  EXPECT_NE(workload.programs[0].kernels, workload.programs[1].kernels);
  validate(workload, {});
}

// Does a step equal the one with written-out programs? The times of all operations are compared to
// the last bit, and so is the memory.
TEST(SharedTemplates, AStepIsTheSameAsWithProgramsWrittenOut) {
  for (const bool folded : {true, false}) {
    const Step shared = played(lower(uneven_plan()), folded);
    const Step own = played(written_out(lower(uneven_plan())), folded);
    const std::vector<std::uint32_t> templates = program_templates(own.workload.programs);
    EXPECT_EQ(std::set(templates.begin(), templates.end()).size(), 8U);
    ASSERT_EQ(shared.timeline.classes.size(), own.timeline.classes.size());
    for (std::size_t index = 0; index < own.timeline.classes.size(); ++index) {
      EXPECT_EQ(shared.timeline.classes[index].start_s, own.timeline.classes[index].start_s);
      EXPECT_EQ(shared.timeline.classes[index].end_s, own.timeline.classes[index].end_s);
      EXPECT_EQ(memory_peak(shared.workload, shared.partition, shared.timeline, index).bytes,
                memory_peak(own.workload, own.partition, own.timeline, index).bytes);
    }
    EXPECT_EQ(executed_flops(shared.workload).value(), executed_flops(own.workload).value());
  }
}

}  // namespace
}  // namespace trainyard
