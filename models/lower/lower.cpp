#include "models/lower/lower.hpp"

#include <fmt/format.h>

#include "models/context_shape.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/stage.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

ScheduleLists schedule_lists(const TrainingPlan& plan, const PipelineShape& shape) {
  const Parallelism& p = plan.parallelism;
  const FoundSchedule schedule = open_schedule(p.schedule);
  const auto refuse = [](const std::string& problem) {
    return InputError(Problem{.file = {},
                              .pointer = "/parallelism/schedule",
                              .problem = problem,
                              .hint = "`trainyard list schedules` shows what there is"});
  };
  if (!schedule) throw refuse("there is no schedule \"" + p.schedule + "\"");
  if (const auto refusal = schedule->refusal(shape)) throw refuse(*refusal);
  if (shape.placement != Placement::Wrap && !p.overlap_p2p) {
    throw InputError(Problem{.file = {},
                             .pointer = "/parallelism/overlap_p2p",
                             .problem = p.schedule +
                                        " sends both ways between two ranks at once; sends that "
                                        "block would wait for each other",
                             .hint = "set overlap_p2p to true"});
  }
  return all_steps(*schedule, shape);
}

}  // namespace

namespace {

// Counted and described, but not yet made of operations.
void refuse_unlowered(const Architecture& architecture) {
  if (!architecture.has_experts() && !architecture.latent()) return;
  throw InputError(
      Problem{.file = {},
              .pointer = "/model",
              .problem = fmt::format("{} has {}, which cannot be simulated yet", architecture.name,
                                     architecture.latent() ? "latent attention" : "experts"),
              .hint = "choose a dense model (`trainyard list models`)"});
}

}  // namespace

Workload lower(const TrainingPlan& plan) {
  refuse_unlowered(plan.architecture);
  const std::vector<std::int64_t> split = layer_split(plan);
  const PipelineShape shape = pipeline_shape(plan);
  const ScheduleLists lists = schedule_lists(plan, shape);
  const ContextShape context = context_shape(plan.parallelism);
  Workload workload;
  workload.streams = stream_names();
  workload.categories = category_names();
  Interner interner(workload);
  for (std::int64_t stage = 0; stage < plan.parallelism.pipeline; ++stage) {
    for (std::int64_t place = 0; place < context.programs; ++place) {
      StageLowering lowering(plan, split, {.stage = stage, .ring_place = place}, interner);
      workload.programs.push_back(lowering.lower(lists[static_cast<std::size_t>(stage)]));
    }
  }
  drop_unused_names(workload);
  add_groups(plan.parallelism, plan.architecture.tied_embeddings, workload);
  return workload;
}

Flops executed_flops(const Workload& workload) {
  std::vector<double> kernel_flops;
  for (const Kernel& kernel : workload.kernels) kernel_flops.push_back(flops(kernel).value());
  std::vector<double> program_flops;
  for (const Program& program : workload.programs) {
    double sum = 0.0;
    for (const Operation& op : program.operations) {
      if (op.kind == OpKind::Compute) sum += kernel_flops[op.payload];
    }
    program_flops.push_back(sum);
  }
  double total = 0.0;
  for (const Rank& rank : workload.ranks) total += program_flops[rank.program];
  return Flops{total};
}

}  // namespace trainyard
