#include "models/lower/lower.hpp"

#include <optional>

#include "models/context_shape.hpp"
#include "models/expert_grid.hpp"
#include "models/expert_routing.hpp"
#include "models/lower/data_parallel/server_steps.hpp"
#include "models/lower/ends.hpp"
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
  if (shape.placement != StagePlacement::Wrap && !p.overlap_p2p) {
    throw InputError(Problem{.file = {},
                             .pointer = "/parallelism/overlap_p2p",
                             .problem = p.schedule +
                                        " sends both ways between two ranks at once; sends that "
                                        "block would wait for each other",
                             .hint = "set overlap_p2p to true"});
  }
  ScheduleLists lists = all_steps(*schedule, shape);
  return plan.experts.overlap_exchanges ? with_overlapped_pairs(lists) : lists;
}

}  // namespace

namespace {

// Which of a stage's ranks a program is for.
struct Seat {
  ExpertSeat expert;
  std::int64_t replica = 0;
};

bool replicas_differ(const TrainingPlan& plan) {
  return plan.documents.drawn() && plan.documents.independent_replicas && plan.parallelism.data > 1;
}

// The programs of a stage: one, or with uneven experts one for each place among them, or one for
// each replica that reads documents of its own. REQUIRES: not both.
std::vector<Seat> seats_of(const TrainingPlan& plan, const ExpertRouting* routing) {
  std::vector<Seat> seats;
  if (replicas_differ(plan)) {
    for (std::int64_t data = 0; data < plan.parallelism.data; ++data)
      seats.push_back({.expert = {}, .replica = data});
    return seats;
  }
  const bool uneven = routing != nullptr && !routing->balanced();
  const std::int64_t replicas =
      uneven && routing->by_replica() ? plan.parallelism.expert_replicas() : 1;
  for (std::int64_t replica = 0; replica < replicas; ++replica)
    for (std::int64_t place = 0; place < (uneven ? plan.parallelism.expert : 1); ++place)
      seats.push_back({.expert = {.place = place, .replica = replica}});
  return seats;
}

// Gives every rank, which has its stage's place on the ring by now, the program of its seat.
void seat_ranks(const TrainingPlan& plan, const std::vector<Seat>& seats, Workload& workload) {
  if (seats.size() == 1) return;
  const bool by_replica = replicas_differ(plan);
  const RankGrid ranks(plan.parallelism);
  const ExpertGrid experts(plan.parallelism);
  const std::int64_t places = plan.parallelism.expert;
  const auto expert_seat = [&](const ExpertPosition& at) {
    return at.expert + (static_cast<std::int64_t>(seats.size()) > places ? at.replica * places : 0);
  };
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const std::int64_t seat =
        by_replica ? ranks.position(rank).data : expert_seat(experts.position(rank));
    std::uint32_t& program = workload.ranks[rank].program;
    program = program * static_cast<std::uint32_t>(seats.size()) + static_cast<std::uint32_t>(seat);
  }
}

}  // namespace

Workload lower(const TrainingPlan& plan) {
  if (plan.servers.servers > 0) return server_steps(plan);
  const std::vector<std::int64_t> split = layer_split(plan);
  const PipelineShape shape = pipeline_shape(plan);
  const ScheduleLists lists = schedule_lists(plan, shape);
  const ContextShape context = context_shape(plan.parallelism);
  const bool experts = plan.architecture.has_experts();
  std::optional<ExpertRouting> routing;
  if (experts) routing.emplace(plan);
  const auto seats = seats_of(plan, routing ? &*routing : nullptr);
  Workload workload;
  workload.streams = stream_names();
  workload.categories = category_names();
  Interner interner(workload);
  for (std::int64_t stage = 0; stage < plan.parallelism.pipeline; ++stage) {
    for (std::int64_t place = 0; place < context.programs; ++place) {
      for (const Seat& seat : seats) {
        StageLowering lowering(plan, split,
                               {.stage = stage,
                                .ring_place = place,
                                .seat = seat.expert,
                                .replica = seat.replica,
                                .routing = routing ? &*routing : nullptr},
                               interner);
        workload.programs.push_back(lowering.lower(lists[static_cast<std::size_t>(stage)]));
      }
    }
  }
  drop_unused_names(workload);
  Architecture shared = plan.architecture;  // of groups it says who shares the embedding
  shared.tied_embeddings = shares_embedding(plan);
  add_groups(plan.parallelism, shared, workload);
  if (plan.offload.any()) add_host_groups(workload);
  seat_ranks(plan, seats, workload);
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
