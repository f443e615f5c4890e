#include "models/lower/lower.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "models/expert_routing.hpp"
#include "models/lower/local_steps.hpp"
#include "models/lower/options.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/stage.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

ScheduleLists step_lists(const TrainingPlan& plan) {
  const PipelineShape shape = pipeline_shape(plan);
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
                             .problem = p.schedule + " sends in both directions between two ranks "
                                                     "at once, where blocking sends would deadlock",
                             .hint = "set overlap_p2p to true"});
  }
  const ScheduleLists lists = all_steps(*schedule, shape);
  return plan.experts.overlap_dispatch ? with_overlapped_pairs(lists) : lists;
}

namespace {

// Minimum number of forwards and backwards of layers for which a second thread pays off.
constexpr std::size_t kLayersWorthAThread = 1'000;

// Coordinates by which ranks of one stage need different programs. A coordinate that makes no
// difference is 0.
struct RankVariant {
  std::int64_t microbatches = 0;    // of the replica, if replicas have different numbers
  std::int64_t replica = 0;         // replica, if replicas read different documents
  std::int64_t expert_replica = 0;  // replica of the experts, if replicas have different loads
  std::int64_t place = 0;           // expert-parallel rank, if experts have different loads
  auto operator<=>(const RankVariant&) const = default;
};

// The variant of every rank. The programs of a stage are numbered in the order of their variants,
// which is the same for all stages.
class RankVariants {
 public:
  RankVariants(const TrainingPlan& plan, const ExpertRouting* routing)
      : by_replica_(plan.documents.drawn() && plan.documents.independent_replicas),
        by_place_(routing != nullptr && !routing->balanced()),
        by_expert_replica_(by_place_ && routing->by_replica()),
        microbatches_(plan.parallelism.replica_microbatches),
        ranks_(plan.parallelism),
        experts_(plan.parallelism) {
    for (RankId rank = 0; rank < static_cast<RankId>(ranks_.world()); ++rank)
      variants_.insert(variant_of(rank));
  }

  // The variants of a stage, in the order of its programs.
  [[nodiscard]] const std::set<RankVariant>& variants() const { return variants_; }
  [[nodiscard]] std::uint32_t number_of(RankId rank) const {
    return static_cast<std::uint32_t>(
        std::distance(variants_.begin(), variants_.find(variant_of(rank))));
  }

 private:
  [[nodiscard]] RankVariant variant_of(RankId rank) const {
    const ExpertPosition at = experts_.position(rank);
    const std::int64_t data = ranks_.position(rank).data;
    return {
        .microbatches = microbatches_.empty() ? 0 : microbatches_[static_cast<std::size_t>(data)],
        .replica = by_replica_ ? data : 0,
        .expert_replica = by_expert_replica_ ? at.replica : 0,
        .place = by_place_ ? at.expert : 0};
  }

  bool by_replica_;
  bool by_place_;
  bool by_expert_replica_;
  std::vector<std::int64_t> microbatches_;  // by replica; empty: all have equally many
  RankGrid ranks_;
  ExpertGrid experts_;
  std::set<RankVariant> variants_;
};

// Assigns to every rank the program of its variant: with 3 variants, program 2 becomes 6, 7 or 8.
// REQUIRES: add_groups has assigned programs as if each stage and ring position had one.
void variant_ranks(const RankVariants& rank_variants, Workload& workload) {
  const auto variants = static_cast<std::uint32_t>(rank_variants.variants().size());
  if (variants == 1) return;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    std::uint32_t& program = workload.ranks[rank].program;
    program = program * variants + rank_variants.number_of(rank);
  }
}

}  // namespace

Workload lower(const TrainingPlan& plan) { return lower_stepped(plan).workload; }

SteppedWorkload lower_stepped(const TrainingPlan& plan) {
  if (plan.servers.servers > 0) return {.workload = server_steps(plan)};
  if (!plan.parallelism.operator_devices.empty()) return {.workload = operator_step(plan)};
  const ScheduleLists lists = step_lists(plan);
  SteppedWorkload stepped = lower_steps(plan, lists);
  add_workers(plan, stepped.workload);
  return stepped;
}

// Programs of one template share an operation list, so that only the first of them is arranged.
std::optional<std::vector<Program>> rearranged(std::span<const Program> known,
                                               std::span<const BlockCatalogue> books,
                                               const TrainingPlan& plan) {
  if (books.empty()) return std::nullopt;
  const ScheduleLists lists = step_lists(plan);
  const PipelineOptions pipeline = pipeline_options(plan, lowering_options(plan));
  const std::vector<std::uint32_t> templates = program_templates(known);
  std::vector<Program> programs(known.begin(), known.end());
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (templates[i] < i) {
      programs[i].operations = programs[templates[i]].operations;
      continue;
    }
    const std::uint32_t stage = programs[i].stage;
    std::optional<OperationList> list =
        arranged(books[i], programs[i].operations, StageLayout(pipeline, stage), lists[stage]);
    if (!list) return std::nullopt;
    programs[i].operations = *std::move(list);
  }
  return programs;
}

namespace {

// The inputs of lowering for a stage of a replica. They depend on the number of the replica's
// microbatches and on the number of the stage's tensor ranks. Options refer to the plan.
struct StageSteps {
  StageSteps(TrainingPlan of, ScheduleLists steps)
      : plan(std::move(of)),
        options(lowering_options(plan)),
        pipeline(pipeline_options(plan, options)),
        lists(std::move(steps)) {}
  StageSteps(const StageSteps&) = delete;
  StageSteps& operator=(const StageSteps&) = delete;
  StageSteps(StageSteps&&) = delete;
  StageSteps& operator=(StageSteps&&) = delete;
  ~StageSteps() = default;

  TrainingPlan plan;
  LoweringOptions options;
  PipelineOptions pipeline;
  ScheduleLists lists;
};

class StepsOfStages {
 public:
  // Replicas with one number of microbatches are lowered as those of a plan in which all have it.
  StepsOfStages(const TrainingPlan& plan, const ScheduleLists& lists) {
    if (plan.parallelism.replica_microbatches.empty()) add(0, plan, lists);
    for (const std::int64_t microbatches : plan.parallelism.replica_microbatches) {
      TrainingPlan equal = plan;
      equal.parallelism.replica_microbatches.clear();
      equal.training.global_batch_size =
          microbatches * plan.training.micro_batch_size * plan.parallelism.data;
      add(microbatches, equal, step_lists(equal));
    }
  }

  // `microbatches`: RankVariant::microbatches.
  [[nodiscard]] const StageSteps& of(std::int64_t microbatches, std::int64_t stage) const {
    return steps_.at({microbatches, any().plan.parallelism.tensor_of(stage)});
  }
  // For what is the same in all of them.
  [[nodiscard]] const StageSteps& any() const { return steps_.begin()->second; }

 private:
  void add(std::int64_t microbatches, const TrainingPlan& plan, const ScheduleLists& lists) {
    for (std::int64_t stage = 0; stage < plan.parallelism.pipeline; ++stage) {
      const std::pair key(microbatches, plan.parallelism.tensor_of(stage));
      if (!steps_.contains(key)) steps_.try_emplace(key, plan_of_stage(plan, stage), lists);
    }
  }

  std::map<std::pair<std::int64_t, std::int64_t>, StageSteps> steps_;  // by number and tensor ranks
};

// Lowers the stages from `begin` to `end` to a workload with its own tables of names, kernels,
// calls and delays, so that two threads can lower different stages.
class StageRange {
 public:
  // `routing` is copied, because it caches results and must not be shared between threads.
  StageRange(const StepsOfStages& steps, const std::optional<ExpertRouting>& routing,
             Microbatches microbatches)
      : steps_(steps), routing_(routing), microbatches_(microbatches) {}

  [[nodiscard]] SteppedWorkload lower(const RankVariants& rank_variants, std::int64_t begin,
                                      std::int64_t end) const {
    SteppedWorkload stepped;
    Interner interner(stepped.workload);
    for (std::int64_t stage = begin; stage < end; ++stage)
      add(stage, rank_variants, interner, stepped);
    return stepped;
  }

 private:
  // Adds the programs of a stage: one for each ring position and variant. They have the same
  // operations with different sizes, so that the size of one program is a good estimate for the
  // next one, and TemplateWriter lets them share one operation list.
  void add(std::int64_t stage, const RankVariants& rank_variants, Interner& interner,
           SteppedWorkload& stepped) const {
    const std::int64_t places = steps_.any().pipeline.ring_programs;
    const bool alone = places == 1 && rank_variants.variants().size() == 1;
    TemplateWriter writer;
    ProgramSize size;
    for (std::int64_t place = 0; place < places; ++place) {
      for (const RankVariant& variant : rank_variants.variants()) {
        const StageSteps& steps = steps_.of(variant.microbatches, stage);
        StageLowering lowering(
            steps.options, steps.pipeline,
            {.stage = stage,
             .ring_position = place,
             .expert_rank = {.place = variant.place, .replica = variant.expert_replica},
             .replica = variant.replica,
             .routing = routing_ ? &*routing_ : nullptr},
            interner);
        lowering.expect(size);
        if (microbatches_ == Microbatches::WrittenOut) lowering.write_all_out();
        Program program = lowering.lower(steps.lists[static_cast<std::size_t>(stage)]);
        size = size_of(program);
        stepped.begins.push_back(lowering.step_begins());
        stepped.books.push_back(lowering.take_book());
        if (alone) {
          stepped.workload.programs.push_back(std::move(program));
        } else {
          writer.add(std::move(program));
        }
      }
    }
    for (Program& program : writer.take()) stepped.workload.programs.push_back(std::move(program));
  }

  const StepsOfStages& steps_;
  const std::optional<ExpertRouting> routing_;
  Microbatches microbatches_;
};

// Estimates the work by the number of layer steps. It also counts those that become instances of
// known blocks, which cost little.
bool worth_a_thread(const TrainingPlan& plan, const ScheduleLists& lists, std::size_t variants) {
  const std::int64_t stages = plan.parallelism.pipeline;
  std::size_t steps = 0;
  for (const std::vector<ScheduleStep>& list : lists) steps += list.size();
  const auto layers = static_cast<std::size_t>(plan.architecture.layers / stages);
  return stages > 1 && steps * layers * variants > kLayersWorthAThread;
}

// Lowers all stages, with two threads if `in_halves`. The second thread works on a copy of
// `stages`, whose routing has its own cache. append_programs merges the tables of both halves.
SteppedWorkload lower_stages(const StageRange& stages, const RankVariants& rank_variants,
                             std::int64_t count, bool in_halves) {
  if (!in_halves) return stages.lower(rank_variants, 0, count);
  const StageRange others = stages;
  const std::int64_t half = (count + 1) / 2;
  SteppedWorkload first;
  SteppedWorkload second = run_concurrently(
      true, [&] { first = stages.lower(rank_variants, 0, half); },
      [&] { return others.lower(rank_variants, half, count); });
  append_programs(first.workload, std::move(second.workload));
  std::ranges::move(second.begins, std::back_inserter(first.begins));
  std::ranges::move(second.books, std::back_inserter(first.books));
  return first;
}

}  // namespace

SteppedWorkload lower_steps(const TrainingPlan& plan, const ScheduleLists& lists,
                            Microbatches microbatches) {
  const StepsOfStages steps(plan, lists);
  const StageSteps& any = steps.any();
  std::optional<ExpertRouting> routing;
  if (plan.architecture.has_experts()) routing.emplace(plan);
  const RankVariants rank_variants(plan, routing ? &*routing : nullptr);
  SteppedWorkload stepped = lower_stages(
      StageRange(steps, routing, microbatches), rank_variants, plan.parallelism.pipeline,
      worth_a_thread(plan, lists, rank_variants.variants().size()));
  // rearranged() changes the number of microbatches of all programs alike.
  if (!plan.parallelism.replica_microbatches.empty()) stepped.books.clear();
  Workload& workload = stepped.workload;
  workload.streams = stream_names();
  workload.categories = category_names();
  drop_unused_names(workload);
  add_groups({.parallelism = plan.parallelism,
              .architecture = plan.architecture,
              .placement = any.pipeline.shape.placement,
              .context = any.options.layer.attention.context.shape,
              .shares_embedding = any.options.weights.shares_embedding},
             workload);
  if (plan.offload.any()) add_host_groups(workload);
  variant_ranks(rank_variants, workload);
  return stepped;
}

Flops executed_flops(const Workload& workload) {
  std::vector<double> kernel_flops;
  kernel_flops.reserve(workload.kernels.size());
  for (const Kernel& kernel : workload.kernels) kernel_flops.push_back(flops(kernel).value());
  std::vector<double> program_flops;
  for (const Program& program : workload.programs) {
    double sum = 0.0;
    for (const Operation& op : program.operations) {
      if (op.kind == OpKind::Compute) sum += kernel_flops[program.kernel_of(op)];
    }
    program_flops.push_back(sum);
  }
  double total = 0.0;
  for (const Rank& rank : workload.ranks) total += program_flops[rank.program];
  return Flops{total};
}

}  // namespace trainyard
