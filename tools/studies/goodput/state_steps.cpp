#include "tools/studies/goodput/state_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/rank_groups.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

double step_time(const Scenario& scenario, const WhatIf& what_if, Memo& memo) {
  const Result run = simulate(scenario, {.figures = false, .what_if = what_if}, memo);
  return run.timeline.makespan_s / run.facts.steps;
}

// Fewer replicas, each of which does as much as before: the global batch and the cluster become
// smaller in proportion.
void take_replicas(const Scenario& scenario, std::int64_t lost, Json& document) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const std::int64_t left = sizes.data - lost;
  document["parallelism"]["data"] = left;
  document["training"]["global_batch_size"] =
      scenario.plan.training.global_batch_size / sizes.data * left;
  document["cluster"]["nodes"] =
      static_cast<std::int64_t>(scenario.cluster.nodes) * left / sizes.data;
}

bool is_of_kernels(FailingComponent component) {
  return component == FailingComponent::Gpu || component == FailingComponent::Node;
}

// The NIC of the first GPU of the stage has a share of its rate left.
void slow_nic(const Scenario& scenario, const FailureProcess& failure, std::int64_t stage,
              Json& faults) {
  const RankId rank = RankGrid(scenario.plan.parallelism).rank({.data = 0, .pipeline = stage});
  const std::int64_t gpus = scenario.cluster.node.gpus;
  const std::int64_t nic =
      static_cast<std::int64_t>(rank) % gpus * scenario.cluster.node.nics / gpus;
  faults.push_back(
      {{"device", fmt::format("node {} nic {}", static_cast<std::int64_t>(rank) / gpus, nic)},
       {"capacity_factor", failure.rate_left}});
}

// The GPU of a rank computes at a share of its speed.
void slow_gpu(const Scenario& scenario, RankId rank, double speed, Json& faults) {
  const auto number = static_cast<std::int64_t>(rank);
  const std::int64_t gpus = scenario.cluster.node.gpus;
  faults.push_back({{"device", fmt::format("node {} gpu {}", number / gpus, number % gpus)},
                    {"speed_factor", speed}});
}

// A GPU of the stage in the first replica, or all GPUs of its node.
void slow_kernels(const Scenario& scenario, const FailureProcess& failure, std::int64_t stage,
                  Json& faults) {
  const RankId rank = RankGrid(scenario.plan.parallelism).rank({.data = 0, .pipeline = stage});
  if (failure.component == FailingComponent::Gpu)
    return slow_gpu(scenario, rank, failure.rate_left, faults);
  const std::uint32_t gpus = scenario.cluster.node.gpus;
  const std::uint32_t first = static_cast<std::uint32_t>(rank) / gpus * gpus;
  for (std::uint32_t gpu = first; gpu < first + gpus; ++gpu)
    slow_gpu(scenario, RankId{gpu}, failure.rate_left, faults);
}

// A stage of the first replica, to which all others are alike or faster, does more work.
void slow_stage(const Scenario& scenario, std::int64_t stage, double speed, Json& faults) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const RankGrid grid(sizes);
  for (std::int64_t tensor = 0; tensor < sizes.tensor; ++tensor)
    for (std::int64_t context = 0; context < sizes.context; ++context)
      slow_gpu(scenario,
               grid.rank({.tensor = tensor, .context = context, .data = 0, .pipeline = stage}),
               speed, faults);
}

// A write takes its rate from the NICs of the first `nodes` nodes, whose flows share fairly.
void use_nics(const ClusterSpec& cluster, double node_rate, std::int64_t nodes, Json& faults) {
  const std::int64_t nics = cluster.node.nics;
  const double whole = cluster.node.nic.value() * static_cast<double>(nics);
  const double left = std::max(0.5, 1.0 - node_rate / whole);
  if (left >= 1.0) return;
  const auto slow = [&](const char* key, const Json& part) {
    faults.push_back({{key, part}, {"capacity_factor", left}});
  };
  for (std::int64_t nic = 0; nic < nics; ++nic) {
    if (nodes >= cluster.nodes) {
      slow("rail", nic);
      continue;
    }
    for (std::int64_t node = 0; node < nodes; ++node)
      slow("device", fmt::format("node {} nic {}", node, nic));
  }
}

// Reroute: the d - k replicas left at a stage do the work of d. Redundant: the stage before a
// missing one does the work of both.
void add_work(const Scenario& scenario, const JobState& state, FailurePolicy policy, Json& faults) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const auto data = static_cast<double>(sizes.data);
  std::map<std::int64_t, double> missing;
  for (const std::int64_t stage : state.empty_stages) ++missing[stage];
  for (const auto& [stage, count] : missing) {
    if (policy == FailurePolicy::Reroute) {
      slow_stage(scenario, stage, (data - count) / data, faults);
    } else {
      slow_stage(scenario, (stage + sizes.pipeline - 1) % sizes.pipeline, 0.5, faults);
    }
  }
}

}  // namespace

StateSteps::StateSteps(Scenario scenario, Memo& memo)
    : scenario_(std::move(scenario)), memo_(memo) {}

double StateSteps::step_in(const JobState& state) {
  ++asked_;
  const auto found = known_.find(state);
  if (found != known_.end()) return found->second;
  return known_[state] = simulated_step(state);
}

double StateSteps::simulated_step(const JobState& state) {
  Json document = resolved(scenario_);
  document.erase("reliability");
  if (state.replicas_lost > 0) take_replicas(scenario_, state.replicas_lost, document);
  const Scenario left = read_scenario_document(scenario_.file, document);
  Json faults = document["cluster"].value("faults", Json::array());
  for (const SlowPart& part : state.slow) {
    const bool kernels = is_of_kernels(scenario_.reliability->failures[part.cause].component);
    (kernels ? slow_kernels : slow_nic)(left, scenario_.reliability->failures[part.cause],
                                        part.stage, faults);
  }
  add_work(left, state, scenario_.reliability->policy, faults);
  if (faults.empty()) return step_time(left, {}, memo_);
  document["cluster"]["faults"] = std::move(faults);
  return step_time(read_scenario_document(scenario_.file, document), {}, memo_);
}

double StateSteps::step_beside_write(double node_rate, std::int64_t nodes) {
  Json document = resolved(scenario_);
  document.erase("reliability");
  if (scenario_.cluster.nodes > 1) {
    Json& faults = document["cluster"]["faults"];
    if (faults.is_null()) faults = Json::array();
    use_nics(scenario_.cluster, node_rate, nodes, faults);
  }
  return step_time(read_scenario_document(scenario_.file, document), {}, memo_);
}

// Forward, and backward of twice the work: one forward more makes 4/3 of the time of kernels.
double StateSteps::redundant_step() {
  constexpr double kMore = 4.0 / 3.0;
  return step_time(scenario_, {.gemm = kMore, .attention = kMore, .memory_bound = kMore}, memo_);
}

}  // namespace trainyard
