#include "tools/studies/goodput/state_steps.hpp"

#include <fmt/format.h>

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

struct NodeAndGpu {
  std::int64_t node;
  std::int64_t gpu;
};
NodeAndGpu gpu_of(const Scenario& scenario, RankId rank) {
  const std::int64_t gpus = scenario.cluster.node.gpus;
  return {.node = static_cast<std::int64_t>(rank) / gpus, .gpu = static_cast<std::int64_t>(rank) % gpus};
}

void slow_gpu(const Scenario& scenario, RankId rank, double rate_left, Json& faults) {
  const NodeAndGpu at = gpu_of(scenario, rank);
  faults.push_back({{"device", fmt::format("node {} gpu {}", at.node, at.gpu)},
                    {"speed_factor", rate_left}});
}

// The first GPU of the stage is slow, or its NIC.
void slow_part(const Scenario& scenario, const SlowPart& part, Json& faults) {
  const FailureProcess& failure = scenario.reliability->failures[part.cause];
  const RankId rank =
      RankGrid(scenario.plan.parallelism).rank({.data = 0, .pipeline = part.stage});
  if (failure.component == FailingComponent::Gpu || failure.component == FailingComponent::Node)
    return slow_gpu(scenario, rank, failure.rate_left, faults);
  const NodeAndGpu at = gpu_of(scenario, rank);
  const std::int64_t nic = at.gpu * scenario.cluster.node.nics / scenario.cluster.node.gpus;
  faults.push_back({{"device", fmt::format("node {} nic {}", at.node, nic)},
                    {"capacity_factor", failure.rate_left}});
}

// Every GPU of a stage works at a share of its speed.
void slow_stage(const Scenario& scenario, std::int64_t stage, double rate_left, Json& faults) {
  const RankGrid grid(scenario.plan.parallelism);
  for (RankId rank = 0; rank < static_cast<RankId>(grid.world()); ++rank)
    if (grid.position(rank).pipeline == stage) slow_gpu(scenario, rank, rate_left, faults);
}

// Reroute: the d - k replicas left at a stage do the work of d. Redundant: the stage before a missing
// one does the work of both.
void compensate(const Scenario& scenario, const std::vector<std::int64_t>& stages, Json& faults) {
  const Parallelism& sizes = scenario.plan.parallelism;
  std::map<std::int64_t, std::int64_t> missing;
  for (const std::int64_t stage : stages) ++missing[stage];
  for (const auto& [stage, count] : missing) {
    const bool reroute = scenario.reliability->policy == FailurePolicy::Reroute;
    const auto data = static_cast<double>(sizes.data);
    const std::int64_t before = (stage + sizes.pipeline - 1) % sizes.pipeline;
    if (reroute)
      slow_stage(scenario, stage, (data - static_cast<double>(count)) / data, faults);
    else
      slow_stage(scenario, before, 0.5, faults);
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
  Json faults = document["cluster"].value("faults", Json::array());
  for (const SlowPart& part : state.slow) slow_part(scenario_, part, faults);
  compensate(scenario_, state.empty_stages, faults);
  if (!faults.empty()) document["cluster"]["faults"] = std::move(faults);
  return step_time(read_scenario_document(scenario_.file, document), {}, memo_);
}

// Forward, and backward of twice the work: one forward more makes 4/3 of the time of kernels.
double StateSteps::redundant_step() {
  constexpr double kMore = 4.0 / 3.0;
  return step_time(scenario_, {.gemm = kMore, .attention = kMore, .memory_bound = kMore}, memo_);
}

}  // namespace trainyard
