#include "tools/studies/search/bounds.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/framework.hpp"
#include "models/lower/lower.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "models/stragglers.hpp"
#include "sim/nccl/transport.hpp"
#include "tools/studies/search/call_times.hpp"
#include "tools/studies/search/least_play.hpp"
#include "tools/studies/search/sample.hpp"
#include "tools/studies/search/segments.hpp"

namespace trainyard {

namespace {

nccl::NcclTransport transport_of(const Cluster& cluster, const Scenario& scenario) {
  nccl::Options options = nccl::options_of(scenario.plan.collectives.nccl);
  options.stands_in = true;
  return {cluster, std::move(options)};
}

// Forwards and backwards that exchange experts' rows run as one block where the schedule says so.
bool may_weave(const TrainingPlan& plan, const ScheduleLists& lists) {
  if (!divides_experts(plan.parallelism, plan.architecture)) return false;
  return std::ranges::any_of(lists, [](const std::vector<ScheduleStep>& list) {
    return std::ranges::any_of(list, &ScheduleStep::overlapped);
  });
}

// Where ranks that share a sequence share experts too, not every place in the one meets every place
// in the other, and some programs are nobody's.
std::set<std::uint32_t> programs_run(const Workload& workload) {
  std::set<std::uint32_t> programs;
  for (const Rank& rank : workload.ranks) programs.insert(rank.program);
  return programs;
}

// A rank's kernels one after the other, and what it always holds.
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
        transport(transport_of(*cluster, scenario)),
        // Groups are alike only on a cluster without faults that was built from one node type; what
        // a profile measured may be quicker than the model.
        times(*cluster, transport,
              scenario.cluster.faults.empty() && !scenario.cluster.custom &&
                  scenario.plan.collectives.profile.empty() &&
                  scenario.collective_model == CollectiveModel::Fluid) {}

  // Prices kernels as a run does (scenarios/simulate/kernel_pricing.hpp, which searches may not
  // include): with the same stragglers and the same passes beside a block of a context ring.
  // Recipes are among what a search may try, and how wide products are is theirs.
  [[nodiscard]] std::vector<double> seconds(const Workload& workload,
                                            const TrainingPlan& plan) const {
    FrameworkTimes stretch = software;
    if (plan.experts.products == ExpertProducts::Fused) stretch.fuse_experts();
    if (plan.training.attention == AttentionKind::MemoryEfficient)
      stretch.attend(load_memory_efficient_times(gpu.sheet.generation));
    if (plan.recipe.four_bit_products) stretch.narrow(four_bit_share(gpu.sheet));
    const double last = last_replica(stragglers, plan);
    std::vector<double> all;
    all.reserve(workload.kernels.size());
    for (const Kernel& kernel : workload.kernels) {
      const MemoryBound beside{.bytes = stretch.ring_bytes(kernel)};
      const double beside_s =
          beside.bytes > 0 ? gpu.model->cost(beside).time.value() * stretch.memory_bound : 0.0;
      all.push_back((gpu.model->cost(kernel).time.value() * stretch.of(kernel) + beside_s) * last);
    }
    return all;
  }

  std::shared_ptr<const Cluster> cluster;
  PricedGpu gpu;
  FrameworkTimes software;
  Stragglers stragglers;
  nccl::NcclTransport transport;
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
                                        .kernels_only = may_weave(plan, lists)});
    found.at(stage) = found[stage] ? least_of(*found[stage], least) : least;
  }
  std::vector<RankLeast> ranks;
  for (const std::optional<RankLeast>& rank : found) ranks.push_back(rank.value());
  return least_play(lists, shape, ranks);
}

}  // namespace trainyard
