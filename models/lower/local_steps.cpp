#include "models/lower/local_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/lower/options.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/resident_memory.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

namespace {

constexpr double kFp32 = 4.0;

MemoryBound outer_kernel(std::int64_t parameters, double bytes) {
  return {.kind = MemoryBoundKind::Optimizer,
          .bytes = std::llround(static_cast<double>(parameters) * bytes)};
}

// The difference reads the weight and the one of the last exchange, and writes their difference.
// The step reads the mean difference, the momentum and the weight of the last exchange, and writes
// the latter two, the weight and its copy in the training precision.
Program exchange_program(const TrainingPlan& plan, std::uint32_t stage, std::int64_t parameters,
                         Interner& interner) {
  const double sent = element_bytes(plan.local_steps.precision);
  const double copy = element_bytes(plan.training.precision);
  ProgramBuilder build(interner, fmt::format("exchange of stage {}", stage), stage);
  build.tag({.part = StepPart::Optimizer, .work = WorkClass::Optimizer});
  const OpIndex difference =
      build.compute("outer_difference", outer_kernel(parameters, 2.0 * kFp32 + sent));
  const std::int64_t bytes = std::llround(static_cast<double>(parameters) * sent);
  build.wait_for(build.collective("outer_all_reduce", Stream::Data, Slot::Data,
                                  plan.collectives.call(GroupKind::Data, CollectiveOp::AllReduce,
                                                        bytes, plan.local_steps.precision),
                                  {difference}));
  build.compute("outer_step", outer_kernel(parameters, sent + 5.0 * kFp32 + copy));
  return build.take();
}

}  // namespace

void add_workers(const TrainingPlan& plan, Workload& workload) {
  const auto ranks = static_cast<std::uint32_t>(workload.ranks.size());
  const auto groups = static_cast<std::uint32_t>(workload.groups.size());
  const auto workers = static_cast<std::uint32_t>(plan.workers());
  for (std::uint32_t worker = 1; worker < workers; ++worker) {
    for (std::uint32_t id = 0; id < groups; ++id) {
      Group group = workload.groups[id];
      for (RankId& member : group.members) member += worker * ranks;
      workload.groups.push_back(std::move(group));
    }
    for (std::uint32_t id = 0; id < ranks; ++id) {
      Rank rank = workload.ranks[id];
      const std::uint32_t own = worker * ranks + id;
      rank.gpu = gpu_of_rank(plan.parallelism, RankId{own});
      for (SlotBinding& slot : rank.slots)
        if (slot.group != kNone) slot.group += worker * groups;
      rank.label = fmt::format("worker{} {}", worker, rank.label);
      workload.ranks.push_back(std::move(rank));
    }
  }
}

std::vector<std::int64_t> exchanged_parameters(const TrainingPlan& plan) {
  std::vector<std::int64_t> all;
  for (std::int64_t stage = 0; stage < plan.parallelism.pipeline; ++stage) {
    const TrainingPlan of_stage = plan_of_stage(plan, stage);
    const LoweringOptions options = lowering_options(of_stage);
    const StageLayout layout(pipeline_options(of_stage, options), stage);
    all.push_back(
        kept_parameters(options.replicas.gradients,
                        stage_parameters(options, layout, stage_weights(options, layout))));
  }
  return all;
}

Workload exchange_step(const TrainingPlan& plan, const Workload& inner) {
  Workload workload;
  Interner interner(workload);
  for (const std::int64_t parameters : exchanged_parameters(plan))
    workload.programs.push_back(exchange_program(
        plan, static_cast<std::uint32_t>(workload.programs.size()), parameters, interner));
  workload.streams = stream_names();
  workload.categories = category_names();
  drop_unused_names(workload);
  workload.slots = slot_names();
  workload.slots.resize(number(Slot::Data) + 1);
  const auto ranks =
      static_cast<std::uint32_t>(inner.ranks.size()) / static_cast<std::uint32_t>(plan.workers());
  // One group for each rank of a worker: that rank of all workers.
  workload.groups.resize(ranks, {.kind = GroupKind::Data});
  for (std::uint32_t id = 0; id < inner.ranks.size(); ++id) {
    const Rank& rank = inner.ranks[id];
    workload.groups[id % ranks].members.emplace_back(id);
    Rank& own = workload.ranks.emplace_back(
        Rank{.program = inner.programs[rank.program].stage, .gpu = rank.gpu, .label = rank.label});
    own.slots.resize(workload.slots.size());
    own.slots.back() = {.group = GroupId(id % ranks), .group_rank = id / ranks};
  }
  return workload;
}

}  // namespace trainyard
