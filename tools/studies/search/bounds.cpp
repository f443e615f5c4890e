#include "tools/studies/search/bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/framework.hpp"
#include "models/lower/lower.hpp"
#include "models/pipeline_shape.hpp"
#include "models/plan.hpp"
#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "models/stragglers.hpp"
#include "sim/base/check.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "tools/studies/search/segments.hpp"

namespace trainyard {

namespace {

// A few steps that represent all steps of a schedule. The bounds need the least time and memory of
// each kind of step, so only the steps of the sample are lowered. Two microbatches go through each
// chunk, one after the other; the last one reduces gradients. If a schedule splits some backwards
// and not others, the sample has one backward of each kind.
struct StepSample {
  TrainingPlan plan;  // with the number of microbatches of the sample
  ScheduleLists lists;
};

constexpr std::int64_t kOfEachChunk = 2;

// Whether all microbatches have the same kernels and the same memory.
bool microbatches_are_equal(const TrainingPlan& plan) {
  const bool even = plan.experts.routing == RoutingKind::Balanced;
  return (even || !plan.architecture.has_experts()) && !plan.documents.drawn();
}

bool has(const std::vector<ScheduleStep>& list, StepKind kind, std::int64_t chunk) {
  return std::ranges::any_of(
      list, [&](const ScheduleStep& step) { return step.kind == kind && step.chunk == chunk; });
}

// The sample of one rank: each microbatch goes forward through all chunks and then back through
// them.
std::vector<ScheduleStep> sample_list(const std::vector<ScheduleStep>& list,
                                      const PipelineShape& shape) {
  std::vector<ScheduleStep> sample;
  const auto add = [&](StepKind kind, std::int64_t number, std::int64_t chunk) {
    const std::int64_t microbatch = microbatches_of(shape, chunk).begin + number;
    sample.push_back({.kind = kind,
                      .microbatch = static_cast<std::int32_t>(microbatch),
                      .chunk = static_cast<std::int32_t>(chunk)});
  };
  for (std::int64_t number = 0; number < kOfEachChunk; ++number) {
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
      add(StepKind::Forward, number, chunk);
    for (std::int64_t chunk = shape.chunks; chunk-- > 0;) {
      const bool whole = has(list, StepKind::Backward, chunk);
      const bool split = has(list, StepKind::BackwardInput, chunk);
      if (whole && (!split || number == 0)) {
        add(StepKind::Backward, number, chunk);
      } else {
        add(StepKind::BackwardInput, number, chunk);
        add(StepKind::BackwardWeight, number, chunk);
      }
    }
  }
  return sample;
}

// The sample of a plan with the schedule `lists`. The whole lists are the sample if microbatches
// differ (documents are drawn, experts are loaded unevenly) or are few. Where two directions share
// the pipeline (weight_copies() is 2), each has chunks and microbatches of its own.
StepSample sample_of(const TrainingPlan& plan, const ScheduleLists& lists) {
  const std::int64_t count = kOfEachChunk * weight_copies(plan.parallelism);
  if (!microbatches_are_equal(plan) || plan.microbatches() <= count) return {plan, lists};
  StepSample sample{.plan = plan, .lists = {}};
  sample.plan.training.global_batch_size =
      plan.training.micro_batch_size * plan.parallelism.data * count;
  const PipelineShape shape = pipeline_shape(sample.plan);
  for (const std::vector<ScheduleStep>& list : lists)
    sample.lists.push_back(sample_list(list, shape));
  return sample;
}

constexpr double kNotYet = -1.0;

// Plays the lists of a schedule with the least time of each step. Messages take no time, and the
// output of a step may be available before the step ends. Every start and end is therefore a lower
// bound of its time in the simulation: a step starts at the later of the time at which its rank is
// free and the time at which its input is available, and both are lower bounds by induction over
// the steps.
class Play {
 public:
  Play(const ScheduleLists& lists, const PipelineShape& shape, const std::vector<RankLeast>& ranks)
      : lists_(lists), shape_(shape), ranks_(ranks), next_(lists.size(), 0) {
    const auto stages = static_cast<std::size_t>(virtual_stages(shape));
    const auto microbatches = static_cast<std::size_t>(shape.microbatches);
    forward_s_.assign(stages * microbatches, kNotYet);
    backward_s_ = forward_s_;
    for (const RankLeast& rank : ranks) free_s_.push_back(rank.head_s);
    blocks_.resize(ranks.size());
  }

  // Advances every rank as far as its inputs allow, until no rank can advance. A schedule without
  // deadlock plays to its end.
  [[nodiscard]] double end_s() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank)
        while (next_[rank] < lists_[rank].size() && play_next(rank)) moved = true;
    }
    double end = 0.0;
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      TY_CHECK(next_[rank] == lists_[rank].size(), rank, next_[rank]);
      end = std::max(end, free_s_[rank] + ranks_[rank].tail_s);
    }
    return end;
  }

 private:
  [[nodiscard]] double& done(std::vector<double>& times, std::int64_t stage,
                             const ScheduleStep& step) const {
    return times[static_cast<std::size_t>(stage * shape_.microbatches + step.microbatch)];
  }

  // Plays the next step of a rank, and returns false if its input is missing. The backward of a
  // block does not wait for the input of the forward, but the rank is not free before it has done
  // both steps.
  bool play_next(std::size_t rank) {
    const ScheduleStep& step = lists_[rank][next_[rank]];
    const std::int64_t stage =
        stage_of(shape_, {.rank = static_cast<std::int64_t>(rank), .chunk = step.chunk});
    const StepLeast& least = ranks_[rank].of(step);
    const bool ends_block = next_[rank] > 0 && lists_[rank][next_[rank] - 1].overlapped;
    double start = ends_block ? blocks_[rank].begin_s : free_s_[rank];
    const std::optional<double> input = input_s(stage, step);
    if (!input) return false;
    start = std::max(start, *input);
    if (std::vector<double>* const output = outputs_of(step.kind))
      done(*output, stage, step) = start + least.output_s;
    if (step.overlapped) blocks_[rank] = {free_s_[rank], least.occupied_s};
    const double end = start + least.occupied_s;
    // The kernels of both steps share the compute stream, so a block lasts at least their sum.
    free_s_[rank] =
        ends_block ? std::max({free_s_[rank], end,
                               blocks_[rank].begin_s + blocks_[rank].forward_s + least.occupied_s})
                   : end;
    ++next_[rank];
    return true;
  }

  // The time at which the step's input from another stage is available. There is no value while it
  // is not known.
  [[nodiscard]] std::optional<double> input_s(std::int64_t stage, const ScheduleStep& step) {
    if (step.kind == StepKind::BackwardWeight) return 0.0;  // needs only its rank's own input part
    const bool forward = step.kind == StepKind::Forward;
    const std::int64_t source = forward ? stage - 1 : stage + 1;
    if (source < 0 || source >= virtual_stages(shape_)) return 0.0;
    const double input = done(*outputs_of(step.kind), source, step);
    return input == kNotYet ? std::nullopt : std::optional(input);
  }

  // The output times of steps of this kind; nullptr for a weight gradient, which has no output for
  // other stages.
  [[nodiscard]] std::vector<double>* outputs_of(StepKind kind) {
    if (kind == StepKind::BackwardWeight) return nullptr;
    return kind == StepKind::Forward ? &forward_s_ : &backward_s_;
  }

  struct Block {
    double begin_s = 0.0;
    double forward_s = 0.0;
  };

  const ScheduleLists& lists_;
  const PipelineShape& shape_;
  const std::vector<RankLeast>& ranks_;
  std::vector<std::size_t> next_;
  std::vector<double> free_s_;
  std::vector<Block> blocks_;  // the latest block of each rank
  // [virtual stage][microbatch]: when outputs are available
  std::vector<double> forward_s_, backward_s_;
};

// The bytes of a chunk that a microbatch holds when the step begins.
double held_before(const RankLeast& rank, ScheduleStep step) {
  if (step.kind == StepKind::Forward) return 0.0;
  step.kind = step.kind == StepKind::BackwardWeight ? StepKind::BackwardInput : StepKind::Forward;
  return rank.of(step).left_bytes;
}

// The least peak of a rank along its list: the memory that it always holds, plus the memory of the
// microbatches under way, plus the need of the running step. Within a block the backward may have
// freed its memory before the forward allocates, so this memory is subtracted.
double peak_bytes(const std::vector<ScheduleStep>& steps, const RankLeast& rank) {
  double under_way = 0.0;
  double peak = rank.held_bytes;
  double block_bytes = 0.0;  // left by the forward at the beginning of the block
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepLeast& least = rank.of(steps[i]);
    const bool begins_block = steps[i].overlapped && i + 1 < steps.size();
    const double freed = begins_block ? held_before(rank, steps[i + 1]) : 0.0;
    peak = std::max(peak, rank.held_bytes + under_way - block_bytes - freed + least.needed_bytes);
    under_way += least.left_bytes - held_before(rank, steps[i]);
    block_bytes = begins_block ? least.left_bytes : 0.0;
  }
  return peak;
}

// REQUIRES: check_schedule finds no fault in the lists; one RankLeast for each rank.
LayoutBound least_play(const ScheduleLists& lists, const PipelineShape& shape,
                       const std::vector<RankLeast>& ranks) {
  LayoutBound bound{.step_time_s = Play(lists, shape, ranks).end_s()};
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    bound.peak_bytes = std::max(bound.peak_bytes, peak_bytes(lists[rank], ranks[rank]));
  return bound;
}

nccl::NcclModel model_of(const Cluster& cluster, const Scenario& scenario) {
  nccl::Options options = nccl::options_of(scenario.plan.collectives.nccl);
  options.allow_fallback = true;
  return {cluster, std::move(options)};
}

// Whether forwards and backwards with dispatch and combine run as one block in this schedule.
bool may_overlap(const TrainingPlan& plan, const ScheduleLists& lists) {
  if (!divides_experts(plan.parallelism, plan.architecture)) return false;
  return std::ranges::any_of(lists, [](const std::vector<ScheduleStep>& list) {
    return std::ranges::any_of(list, &ScheduleStep::overlapped);
  });
}

// The programs that some rank runs. If ranks that share a sequence share experts too, not every
// index in one group occurs with every index in the other, so no rank runs some of the programs.
std::set<std::uint32_t> programs_run(const Workload& workload) {
  std::set<std::uint32_t> programs;
  for (const Rank& rank : workload.ranks) programs.insert(rank.program);
  return programs;
}

// A coarse bound: the sum of a rank's kernels, and the memory that it always holds.
LayoutBound coarse_bound(const Workload& workload, std::span<const double> kernel_seconds) {
  LayoutBound bound;
  for (const Program& program : workload.programs) {
    double busy = 0.0;
    double held = 0.0;
    for (const Operation& op : program.operations) {
      if (op.kind == OpKind::Compute && op.stream == 0)
        busy += kernel_seconds[program.kernel_of(op)];
    }
    for (const ResidentMemory& part : program.resident) held += static_cast<double>(part.bytes);
    bound.step_time_s = std::max(bound.step_time_s, busy);
    bound.peak_bytes = std::max(bound.peak_bytes, held);
  }
  return bound;
}

}  // namespace

std::optional<std::string_view> unbounded_part(const Scenario& scenario) {
  const TrainingPlan& plan = scenario.plan;
  const ClusterSpec& cluster = scenario.cluster;
  if (!cluster.others.empty()) return "/cluster/others";
  if (!cluster.node.other_gpus.empty()) return "/cluster/node/other_gpus";
  if (cluster.custom && !cluster.custom->kinds.empty()) return "/cluster/devices";
  if (plan.servers.servers > 0) return "/parameter_servers";
  if (plan.offload.any()) return "/offload";
  if (plan.documents.drawn() && plan.documents.independent_replicas)
    return "/documents/independent_replicas";
  return std::nullopt;
}

struct Bounder::Machine {
  explicit Machine(const Scenario& scenario)
      : cluster(shared_cluster(scenario.cluster)),
        gpu(load_gpu(cluster->facts().gpu)),
        software(load_framework_times(scenario.framework, gpu.sheet.generation)),
        stragglers(scenario.stragglers ? load_stragglers() : Stragglers{}),
        communication(model_of(*cluster, scenario)),
        // Groups with the same position within their nodes are isomorphic only on a cluster without
        // faults that was built from one node type. A call that a profile measured may be quicker
        // than the model.
        times(*cluster, communication,
              scenario.cluster.faults.empty() && !scenario.cluster.custom &&
                  scenario.plan.collectives.profile.empty() &&
                  scenario.collective_model == CollectiveModel::Fluid) {}

  // Prices kernels as a run does (scenarios/simulate/kernel_pricing.hpp, which searches may not
  // include): with the same stragglers and the same memory passes for a block of a context ring.
  // The plan is an argument, because a search may try recipes, and a recipe decides the precision
  // of GEMMs.
  [[nodiscard]] std::vector<double> seconds(const Workload& workload,
                                            const TrainingPlan& plan) const {
    FrameworkTimes factors = software;
    if (plan.experts.gemms == ExpertGemms::Fused) factors.fuse_experts();
    if (plan.training.attention == AttentionKind::MemoryEfficient)
      factors.attend(load_memory_efficient_times(gpu.sheet.generation));
    if (plan.recipe.four_bit_gemms) factors.narrow(four_bit_share(gpu.sheet));
    const double last = last_replica(stragglers, plan);
    std::vector<double> all;
    all.reserve(workload.kernels.size());
    for (const Kernel& kernel : workload.kernels) {
      const MemoryBound beside{.bytes = factors.ring_bytes(kernel)};
      const double beside_s =
          beside.bytes > 0 ? gpu.model->cost(beside).time.value() * factors.memory_bound : 0.0;
      all.push_back((gpu.model->cost(kernel).time.value() * factors.of(kernel) + beside_s) * last);
    }
    return all;
  }

  std::shared_ptr<const Cluster> cluster;
  PricedGpu gpu;
  FrameworkTimes software;
  Stragglers stragglers;
  nccl::NcclModel communication;
  CallTimes times;
};

Bounder::Bounder(const Scenario& scenario) : machine_(std::make_unique<Machine>(scenario)) {}
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;
Bounder::~Bounder() = default;

double Bounder::capacity_bytes() const { return machine_->cluster->facts().gpu_memory.value(); }

LayoutBound Bounder::bound(const TrainingPlan& plan) const {
  if (!plan.parallelism.operator_devices.empty()) {
    const Workload workload = lower(plan);
    return coarse_bound(workload, machine_->seconds(workload, plan));
  }
  const ScheduleLists lists = step_lists(plan);
  const StepSample sample = sample_of(plan, lists);
  const SteppedWorkload stepped = lower_steps(sample.plan, sample.lists);
  const std::vector<double> seconds = machine_->seconds(stepped.workload, plan);
  const PipelineShape shape = pipeline_shape(plan);
  std::vector<std::optional<RankLeast>> found(lists.size());
  for (const std::uint32_t program : programs_run(stepped.workload)) {
    const std::uint32_t stage = stepped.workload.programs[program].stage;
    const RankLeast least = rank_least({.workload = stepped.workload,
                                        .program = program,
                                        .kernel_seconds = seconds,
                                        .begins = stepped.begins.at(program),
                                        .steps = sample.lists.at(stage),
                                        .chunks = static_cast<std::size_t>(shape.chunks),
                                        .times = machine_->times,
                                        .kernels_only = may_overlap(plan, lists)});
    // Ranks of one stage may run different programs. Their least holds for each of them.
    found.at(stage) = found[stage] ? least_of(*found[stage], least) : least;
  }
  std::vector<RankLeast> ranks;
  for (const std::optional<RankLeast>& rank : found) ranks.push_back(rank.value());
  return least_play(lists, shape, ranks);
}

}  // namespace trainyard
