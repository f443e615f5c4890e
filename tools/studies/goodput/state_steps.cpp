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

// Every kernel takes `factor` times as long.
WhatIf slower(double factor) {
  return {.gemm = factor, .attention = factor, .memory_bound = factor};
}

bool is_of_kernels(FailingComponent component) {
  return component == FailingComponent::Gpu || component == FailingComponent::Node;
}

// The NIC of the first GPU of the stage has a share of its rate left.
void slow_nic(const Scenario& scenario, const SlowPart& part, Json& faults) {
  const RankId rank = RankGrid(scenario.plan.parallelism).rank({.data = 0, .pipeline = part.stage});
  const std::int64_t gpus = scenario.cluster.node.gpus;
  const std::int64_t nic =
      static_cast<std::int64_t>(rank) % gpus * scenario.cluster.node.nics / gpus;
  faults.push_back(
      {{"device", fmt::format("node {} nic {}", static_cast<std::int64_t>(rank) / gpus, nic)},
       {"capacity_factor", scenario.reliability->failures[part.cause].rate_left}});
}

// The time of kernels on the slowest GPU over that of the others. Reroute: the d - k replicas left
// at a stage do the work of d. Redundant: the stage before a missing one does the work of both.
double slowest_kernels(const Scenario& scenario, const JobState& state) {
  double slowest = 1.0;
  for (const SlowPart& part : state.slow) {
    const FailureProcess& failure = scenario.reliability->failures[part.cause];
    if (is_of_kernels(failure.component)) slowest = std::max(slowest, 1.0 / failure.rate_left);
  }
  const auto data = static_cast<double>(scenario.plan.parallelism.data);
  const bool reroute = scenario.reliability->policy == FailurePolicy::Reroute;
  std::map<std::int64_t, double> missing;
  for (const std::int64_t stage : state.empty_stages)
    slowest = std::max(slowest, reroute ? data / (data - ++missing[stage]) : 2.0);
  return slowest;
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
  Json faults = document["cluster"].value("faults", Json::array());
  for (const SlowPart& part : state.slow)
    if (!is_of_kernels(scenario_.reliability->failures[part.cause].component))
      slow_nic(scenario_, part, faults);
  if (!faults.empty()) document["cluster"]["faults"] = std::move(faults);
  const Scenario changed = read_scenario_document(scenario_.file, document);
  return step_time(changed, slower(slowest_kernels(scenario_, state)), memo_);
}

// Forward, and backward of twice the work: one forward more makes 4/3 of the time of kernels.
double StateSteps::redundant_step() {
  constexpr double kMore = 4.0 / 3.0;
  return step_time(scenario_, slower(kMore), memo_);
}

}  // namespace trainyard
