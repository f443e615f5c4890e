#include "scenarios/search/bounds.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/collectives/nccl/transport.hpp"
#include "models/lower/lower.hpp"
#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/search/call_times.hpp"
#include "scenarios/search/least_play.hpp"
#include "scenarios/search/segments.hpp"

namespace trainyard {

namespace {

nccl::NcclTransport transport_of(const Cluster& cluster, const Scenario& scenario) {
  nccl::Options options = nccl::options_of(scenario.plan.collectives.nccl);
  options.stands_in = true;
  return {cluster, std::move(options)};
}

bool is_plain(const ScheduleLists& lists) {
  for (const auto& list : lists) {
    for (const ScheduleStep& step : list) {
      const bool whole = step.kind == StepKind::Forward || step.kind == StepKind::Backward;
      if (!whole || step.overlapped) return false;
    }
  }
  return true;
}

// The least number of microbatches, of all, for which the schedule exists.
TrainingPlan with_few_microbatches(const TrainingPlan& plan, const Schedule& schedule) {
  const Parallelism& p = plan.parallelism;
  const std::int64_t group = p.microbatch_group_size > 0 ? p.microbatch_group_size : p.pipeline;
  TrainingPlan few = plan;
  for (const std::int64_t count : {std::int64_t{2}, group, 2 * group}) {
    if (count >= plan.microbatches()) break;
    few.training.global_batch_size = plan.training.micro_batch_size * p.data * count;
    if (!schedule.refusal(pipeline_shape(few))) return few;
  }
  return plan;
}

// A rank's kernels one after the other, and what it always holds.
LayoutBound coarse_bound(const Workload& workload, std::span<const double> kernel_seconds) {
  LayoutBound bound;
  for (const Program& program : workload.programs) {
    double busy = 0.0;
    double held = 0.0;
    for (const Operation& op : program.operations) {
      if (op.kind == OpKind::Compute && op.stream == 0) busy += kernel_seconds[op.payload];
    }
    for (const ResidentMemory& part : program.resident) held += static_cast<double>(part.bytes);
    bound.step_time_s = std::max(bound.step_time_s, busy);
    bound.peak_bytes = std::max(bound.peak_bytes, held);
  }
  return bound;
}

StepLeast least_of(const StepLeast& a, const StepLeast& b) {
  return {.occupied_s = std::min(a.occupied_s, b.occupied_s),
          .output_s = std::min(a.output_s, b.output_s),
          .kept_bytes = std::min(a.kept_bytes, b.kept_bytes),
          .needed_bytes = std::min(a.needed_bytes, b.needed_bytes)};
}

// What every rank of a stage needs where they run different programs, as those that share a
// sequence do.
RankLeast least_of(RankLeast a, const RankLeast& b) {
  a.head_s = std::min(a.head_s, b.head_s);
  a.tail_s = std::min(a.tail_s, b.tail_s);
  a.held_bytes = std::min(a.held_bytes, b.held_bytes);
  for (std::size_t chunk = 0; chunk < a.forward.size(); ++chunk) {
    a.forward[chunk] = least_of(a.forward[chunk], b.forward.at(chunk));
    a.backward[chunk] = least_of(a.backward[chunk], b.backward.at(chunk));
  }
  return a;
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
        costs(load_cost_model(cluster->facts().gpu)),
        transport(transport_of(*cluster, scenario)),
        // Groups are alike only on a cluster without faults that was built from one node type; what
        // a profile measured may be quicker than the model.
        times(*cluster, transport,
              scenario.cluster.faults.empty() && !scenario.cluster.custom &&
                  scenario.plan.collectives.profile.empty() &&
                  scenario.collective_model == "fluid") {}

  [[nodiscard]] std::vector<double> seconds(const Workload& workload) const {
    std::vector<double> all;
    all.reserve(workload.kernels.size());
    for (const Kernel& kernel : workload.kernels) all.push_back(costs->cost(kernel).time.value());
    return all;
  }

  std::shared_ptr<const Cluster> cluster;
  std::unique_ptr<CostModel> costs;
  nccl::NcclTransport transport;
  CallTimes times;
};

Bounder::Bounder(const Scenario& scenario) : machine_(std::make_unique<Machine>(scenario)) {}
Bounder::Bounder(Bounder&&) noexcept = default;
Bounder& Bounder::operator=(Bounder&&) noexcept = default;
Bounder::~Bounder() = default;

double Bounder::capacity_bytes() const { return machine_->cluster->facts().gpu_memory.value(); }

LayoutBound Bounder::bound(const TrainingPlan& plan) const {
  const FoundSchedule schedule = open_schedule(plan.parallelism.schedule);
  const PipelineShape shape = pipeline_shape(plan);
  const ScheduleLists lists = all_steps(*schedule, shape);
  if (!is_plain(lists) || plan.experts.overlap_exchanges) {
    const Workload workload = lower(plan);
    return coarse_bound(workload, machine_->seconds(workload));
  }
  const TrainingPlan few = with_few_microbatches(plan, *schedule);
  const Workload workload = lower(few);
  const std::vector<double> seconds = machine_->seconds(workload);
  const ScheduleLists few_lists = all_steps(*schedule, pipeline_shape(few));
  std::vector<RankLeast> ranks(lists.size());
  std::vector<bool> seen(lists.size(), false);
  for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
    const std::uint32_t stage = workload.programs[program].stage;
    const auto least = rank_least({.workload = workload,
                                   .program = program,
                                   .kernel_seconds = seconds,
                                   .steps = few_lists.at(stage),
                                   .chunks = static_cast<std::size_t>(shape.chunks),
                                   .times = machine_->times});
    if (!least) return coarse_bound(workload, seconds);
    ranks.at(stage) = seen[stage] ? least_of(ranks[stage], *least) : *least;
    seen[stage] = true;
  }
  return least_play(lists, shape, ranks);
}

}  // namespace trainyard
