#include "tools/studies/goodput/state_steps.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "models/rank_groups.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/goodput/fewer_replicas.hpp"
#include "tools/studies/goodput/layer_move.hpp"

namespace trainyard {

namespace {

// The seconds of a step.
double step_time(const Scenario& scenario, const WhatIf& what_if, Memo& memo) {
  const Result run = simulate(scenario, {.figures = false, .what_if = what_if}, memo);
  return run.view().step_s();
}

// The work that a policy adds to every step. Redundant: forward, and backward of twice the work, so
// that one forward more makes 4/3 of the time of kernels.
WhatIf work_of(FailurePolicy policy) {
  constexpr double kMore = 4.0 / 3.0;
  if (policy != FailurePolicy::Redundant) return {};
  return {.gemm = kMore, .attention = kMore, .memory_bound = kMore};
}

// A job whose cluster gets faults.
class FaultyJob {
 public:
  explicit FaultyJob(Scenario whole)
      : scenario_(std::move(whole)), cluster_(shared_cluster(scenario_.cluster)) {}

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }

  // The part is in the first replica. Replicas are alike, so which of them has it does not matter.
  void slow_part(const FailureProcess& failure, std::int64_t stage) {
    const RankId rank = grid().rank({.data = 0, .pipeline = stage});
    if (failure.component == FailingComponent::Gpu)
      return slow_gpu(gpu_of(rank), failure.rate_left);
    if (failure.component == FailingComponent::Node) return slow_node(rank, failure.rate_left);
    // A cluster of one node has no traffic on its NICs.
    const std::vector<DeviceId>& nics = cluster_->nic_of_gpu();
    if (!nics.empty()) slow_links(nics.at(gpu_of(rank)), failure.rate_left);
  }

  // A synchronous step waits for the slowest replica, so one slow replica stands for all that are
  // as slow. All other replicas are alike or faster.
  void slow_stage_of_first_replica(std::int64_t stage, double speed) {
    const Parallelism& sizes = scenario_.plan.parallelism;
    for (std::int64_t tensor = 0; tensor < sizes.tensor_of(stage); ++tensor)
      for (std::int64_t context = 0; context < sizes.context; ++context)
        slow_gpu(gpu_of(grid().rank(
                     {.tensor = tensor, .context = context, .data = 0, .pipeline = stage})),
                 speed);
  }

  // A write takes `node_rate` bytes per second from the NICs of each of the first `nodes` nodes, or
  // the half that fair sharing gives it.
  void write_from(std::int64_t nodes, double node_rate) {
    const bool equal = scenario_.cluster.others.empty();
    if (equal && nodes >= scenario_.cluster.nodes) {  // one fault for each rail of a large cluster
      const std::set<DeviceId> of_first = nics_of(0);
      for (const DeviceId nic : of_first) slow_rail(nic, rate_left(of_first, node_rate));
      return;
    }
    for (std::int64_t node = 0; node < std::min<std::int64_t>(nodes, scenario_.cluster.nodes);
         ++node) {
      const std::set<DeviceId> nics = nics_of(node);
      for (const DeviceId nic : nics) slow_links(nic, rate_left(nics, node_rate));
    }
  }

 private:
  [[nodiscard]] RankGrid grid() const { return RankGrid(scenario_.plan.parallelism); }

  [[nodiscard]] std::uint32_t gpu_of(RankId rank) const {
    return gpu_of_rank(scenario_.plan.parallelism, rank);
  }

  void slow_gpu(std::uint32_t gpu, double speed) {
    scenario_.cluster.faults.push_back({.part = Fault::Part::Device,
                                        .device = cluster_->name(cluster_->gpus().at(gpu)),
                                        .capacity_factor = 1.0,
                                        .speed_factor = speed});
  }

  void slow_node(RankId rank, double speed) {
    const std::uint32_t gpus = cluster_->facts().gpus_per_node;
    const std::uint32_t first = gpu_of(rank) / gpus * gpus;
    for (std::uint32_t gpu = first; gpu < first + gpus; ++gpu) slow_gpu(gpu, speed);
  }

  void slow_links(DeviceId device, double rate) {
    scenario_.cluster.faults.push_back(
        {.part = Fault::Part::Device, .device = cluster_->name(device), .capacity_factor = rate});
  }

  void slow_rail(DeviceId nic, double rate) {
    scenario_.cluster.faults.push_back(
        {.part = Fault::Part::Rail,
         .rail = static_cast<std::uint32_t>(cluster_->device(nic).index),
         .capacity_factor = rate});
  }

  // The NICs of a node that its GPUs use; none in a cluster of one node.
  [[nodiscard]] std::set<DeviceId> nics_of(std::int64_t node) const {
    const std::vector<DeviceId>& nics = cluster_->nic_of_gpu();
    if (nics.empty()) return {};
    const auto gpus = static_cast<std::ptrdiff_t>(cluster_->facts().gpus_per_node);
    const auto first = nics.begin() + node * gpus;
    return {first, first + gpus};
  }

  // The share of the NICs' rate that a write leaves to training.
  [[nodiscard]] double rate_left(const std::set<DeviceId>& nics, double node_rate) const {
    double whole = 0.0;
    for (const DeviceId nic : nics) whole += port_rate(nic);
    return std::max(0.5, 1.0 - node_rate / whole);
  }

  [[nodiscard]] double port_rate(DeviceId nic) const {
    double rate = 0.0;
    for (const Link link : cluster_->links_from(nic))
      if (link.kind == LinkKind::NicPort) rate += link.capacity.value();
    return rate;
  }

  Scenario scenario_;
  std::shared_ptr<const Cluster> cluster_;  // without the faults
};

// Reroute: the d - k replicas left at a stage do the work of d. Redundant: the stage before a
// missing one does the work of both.
void add_work(const JobState& state, FailurePolicy policy, FaultyJob& job) {
  const Parallelism& sizes = job.scenario().plan.parallelism;
  const auto data = static_cast<double>(sizes.data);
  std::map<std::int64_t, double> missing;
  for (const std::int64_t stage : state.empty_stages) ++missing[stage];
  for (const auto& [stage, count] : missing) {
    if (policy == FailurePolicy::Reroute) {
      job.slow_stage_of_first_replica(stage, (data - count) / data);
    } else {
      job.slow_stage_of_first_replica((stage + sizes.pipeline - 1) % sizes.pipeline, 0.5);
    }
  }
}

}  // namespace

StateSteps::StateSteps(Scenario scenario, Memo& memo)
    : scenario_(std::move(scenario)), phases_(scenario_phases(scenario_)), memo_(memo) {}

const Scenario& StateSteps::scenario_of(std::size_t phase) const {
  return phases_.empty() ? scenario_ : phases_.at(phase).scenario;
}

double StateSteps::step_in(const JobState& state) {
  ++asked_;
  return known(state).step_s;
}

const StateSteps::KnownState& StateSteps::known(const JobState& state) {
  const auto found = known_.find(state);
  if (found != known_.end()) return found->second;
  const Result run =
      simulate(scenario_in(state),
               {.figures = false, .what_if = work_of(scenario_.reliability->policy)}, memo_);
  KnownState one{.step_s = run.view().step_s()};
  if (run.facts.balance) one.layers = run.facts.balance->layers;
  return known_.emplace(state, std::move(one)).first->second;
}

double StateSteps::move_s(const JobState& from, const JobState& to) {
  if (scenario_.plan.parallelism.balance != Balance::Auto) return 0.0;
  const std::vector<std::int64_t>& before = known(from).layers;
  const std::vector<std::int64_t>& after = known(to).layers;
  if (before == after) return 0.0;
  const auto found = moves_s_.find({from, to});
  if (found != moves_s_.end()) return found->second;
  const Scenario scenario = scenario_in(to);
  const double time_s =
      layer_move_s(scenario.plan, *shared_cluster(scenario.cluster), before, after);
  return moves_s_[{from, to}] = time_s;
}

Scenario StateSteps::scenario_in(const JobState& state) const {
  // Faults name parts of the smaller cluster, so the replicas leave first.
  FaultyJob job(with_fewer_replicas(scenario_of(state.phase), state.replicas_lost));
  for (const SlowPart& part : state.slow)
    job.slow_part(scenario_.reliability->failures[part.cause], part.stage);
  add_work(state, scenario_.reliability->policy, job);
  return job.scenario();
}

double StateSteps::step_beside_write(const Scenario& scenario, double node_rate,
                                     std::int64_t nodes) {
  FaultyJob job(scenario);
  job.write_from(nodes, node_rate);
  return step_time(job.scenario(), {}, memo_);
}

double StateSteps::redundant_step(const Scenario& scenario) {
  return step_time(scenario, work_of(FailurePolicy::Redundant), memo_);
}

bool StateSteps::fits_without(std::int64_t replicas) {
  const auto found = fits_.find(replicas);
  if (found != fits_.end()) return found->second;
  bool fits = true;
  for (std::size_t phase = 0; phase < std::max<std::size_t>(1, phases_.size()); ++phase) {
    const Result run = simulate(with_fewer_replicas(scenario_of(phase), replicas), {}, memo_);
    fits = fits && everything_fits(run.view());
  }
  return fits_[replicas] = fits;
}

}  // namespace trainyard
