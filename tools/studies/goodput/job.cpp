#include "tools/studies/goodput/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "models/architecture/memory.hpp"
#include "models/reliability/checkpoint_interval.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/report/figures.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(const Scenario& scenario, const std::string& field, std::string problem,
                         std::string hint) {
  throw InputError(Problem{.file = scenario.file,
                           .pointer = "/reliability" + field,
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

double components(const ClusterSpec& cluster, FailingComponent component) {
  switch (component) {
    case FailingComponent::Gpu:
      return gpu_count(cluster);
    case FailingComponent::Nic:
      return static_cast<double>(cluster.nodes) * cluster.node.nics;
    case FailingComponent::Node:
      return cluster.nodes;
    case FailingComponent::Job:
      break;
  }
  return 1.0;
}

double seconds_or(const std::optional<Seconds>& time, double otherwise) {
  return time ? time->value() : otherwise;
}

InterruptionCause cause_of(const FailureProcess& failure, const Scenario& scenario) {
  const RecoverySettings& recovery = scenario.reliability->recovery;
  InterruptionCause cause{
      .name = failure.cause,
      .kind = failure.kind,
      .rate = failure.rate_per_component_s() * components(scenario.cluster, failure.component),
      .weibull_shape = failure.weibull_shape,
      .of_parts = failure.component != FailingComponent::Job,
      .replaces_node = failure.kind == FailureKind::Fatal && failure.replaces_node,
      .detect_s = seconds_or(failure.detect, seconds_or(recovery.detect, 0.0)),
      .diagnose_s = seconds_or(failure.diagnose, seconds_or(recovery.diagnose, 0.0)),
      .duration_s = seconds_or(failure.duration, 0.0)};
  if (failure.give_up) cause.give_up_s = failure.give_up->value();
  return cause;
}

SpareNodes spares_of(const SpareSettings& settings) {
  SpareNodes spares{.nodes = settings.nodes,
                    .replace_s = seconds_or(settings.replace, 0.0),
                    .repair_distribution = settings.repair_distribution,
                    .repair_sigma = settings.repair_sigma};
  if (settings.cold_replace) spares.cold_replace_s = settings.cold_replace->value();
  if (settings.repair) spares.repair_s = settings.repair->value();
  return spares;
}

// Times that are given have precedence over bytes and rates.
void set_checkpoint(const Scenario& scenario, Job& job) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  job.checkpoint_bytes = checkpoint.bytes ? checkpoint.bytes->value() : checkpoint_bytes(scenario);
  const Bytes bytes{job.checkpoint_bytes};
  const auto at = [&](const std::optional<BytesPerSecond>& rate) {
    return rate ? (bytes / *rate).value() : 0.0;
  };
  job.stall_s = seconds_or(checkpoint.stall, at(checkpoint.write_rate));
  job.write_s = seconds_or(checkpoint.write, checkpoint.stall ? at(checkpoint.write_rate) : 0.0);
  job.load_s = seconds_or(checkpoint.load, at(checkpoint.read_rate));
}

void set_recovery(const Scenario& scenario, Job& job) {
  const RecoverySettings& recovery = scenario.reliability->recovery;
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  const auto take = [&job](const char* name, const std::optional<Seconds>& time) {
    if (!time) job.absent.emplace_back(name);
    return seconds_or(time, 0.0);
  };
  (void)take("detect", recovery.detect);  // by cause, in cause_of()
  (void)take("diagnose", recovery.diagnose);
  job.start_s = take("start", recovery.start);
  job.communicator_init_s = take("communicator_init", recovery.communicator_init);
  if (!checkpoint.load && !checkpoint.read_rate) job.absent.emplace_back("load");
  job.warm_up_s = take("warm_up", recovery.warm_up);
}

// The interval in whole steps, at least one. An optimal one is as long as the write at least.
void set_interval(const Scenario& scenario, Job& job) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  const auto steps = [&job](double interval_s) {
    return std::max<std::int64_t>(1, std::llround(interval_s / job.step_s));
  };
  job.optimal_interval = !checkpoint.interval && checkpoint.interval_steps == 0;
  if (job.optimal_interval) {
    if (!std::isfinite(job.mtbf_s()))
      refuse(scenario, "/checkpoint/interval", "without failures no interval is the best",
             "give a time, such as \"1 h\"");
    const auto written = static_cast<std::int64_t>(std::ceil(job.write_s / job.step_s));
    job.interval_steps =
        std::max(written, steps(reliability::exact_interval(job.stall_s, job.mtbf_s())));
    return;
  }
  job.interval_steps = checkpoint.interval_steps > 0 ? checkpoint.interval_steps
                                                     : steps(checkpoint.interval->value());
  const double interval_s = static_cast<double>(job.interval_steps) * job.step_s;
  if (job.write_s > interval_s)
    refuse(scenario, "/checkpoint",
           fmt::format("a write of {} is longer than the interval of {} steps, {}",
                       to_text(Seconds{job.write_s}), job.interval_steps,
                       to_text(Seconds{interval_s})),
           "lengthen the interval, or write faster");
}

// The scenario with fewer replicas, each of which does as much as before: the global batch and the
// cluster become smaller in proportion.
Scenario with_fewer(const Scenario& scenario, std::int64_t lost) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const std::int64_t left = sizes.data - lost;
  const std::int64_t batch = scenario.plan.training.global_batch_size / sizes.data * left;
  const std::int64_t nodes = static_cast<std::int64_t>(scenario.cluster.nodes) * left / sizes.data;
  return read_scenario_document(scenario.file, resolved(scenario),
                                {{"parallelism.data", std::to_string(left)},
                                 {"training.global_batch_size", std::to_string(batch)},
                                 {"cluster.nodes", std::to_string(nodes)},
                                 {"reliability", "null"}});
}

double step_time(const Scenario& scenario, Memo& memo) {
  const Result run = simulate(scenario, {.figures = false}, memo);
  return run.timeline.makespan_s / run.facts.steps;
}

void set_elastic(const Scenario& scenario, Memo& memo, Job& job) {
  const Parallelism& sizes = scenario.plan.parallelism;
  job.policy = scenario.reliability->policy;
  job.replicas = sizes.data;
  job.nodes_per_replica =
      static_cast<double>(scenario.cluster.nodes) / static_cast<double>(sizes.data);
  const auto known = std::make_shared<std::vector<double>>(static_cast<std::size_t>(sizes.data));
  job.step_with_fewer = [scenario, known, &memo](std::int64_t lost) {
    double& time = known->at(static_cast<std::size_t>(lost));
    if (time <= 0.0) time = step_time(with_fewer(scenario, lost), memo);
    return time;
  };
}

}  // namespace

double Job::mtbf_s() const {
  double rate = 0.0;
  for (const InterruptionCause& cause : causes) {
    if (cause.kind == FailureKind::Fatal) rate += cause.rate;
    if (cause.kind == FailureKind::Transient)
      rate += cause.rate * std::exp(-cause.give_up_s / cause.duration_s);
  }
  return 1.0 / rate;
}

std::int64_t Job::replicas_lost(std::int64_t missing_nodes) const {
  const double lost = std::ceil(static_cast<double>(missing_nodes) / nodes_per_replica);
  return std::min(replicas, static_cast<std::int64_t>(lost));
}

double checkpoint_bytes(const Scenario& scenario) {
  const TrainingPlan& plan = scenario.plan;
  const StateBytes state =
      state_bytes_per_parameter({.precision = plan.training.precision,
                                 .gradient_precision = plan.training.gradient_precision,
                                 .recipe = plan.recipe,
                                 .optimizer = plan.optimizer});
  return (state.total() - state.gradients) *
         static_cast<double>(parameter_count(plan.architecture));
}

Job job_with_step(const Scenario& scenario, double step_s) {
  Job job;
  job.step_s = step_s;
  for (const FailureProcess& failure : scenario.reliability->failures)
    job.causes.push_back(cause_of(failure, scenario));
  job.spares = spares_of(scenario.reliability->spares);
  job.gpus = static_cast<std::int64_t>(gpu_count(scenario.cluster)) +
             job.spares.nodes * scenario.cluster.node.gpus;
  set_checkpoint(scenario, job);
  set_recovery(scenario, job);
  set_interval(scenario, job);
  return job;
}

Job job_of(const Scenario& scenario, Memo& memo) {
  if (!scenario.reliability)
    refuse(scenario, "", "the scenario does not say what fails",
           "take a preset: --preset llama3; `trainyard list reliability` lists them");
  const Result run = simulate(scenario, {.figures = false}, memo);
  const Figures of_step = figures(run.view());
  Job job = job_with_step(scenario, of_step.step_time_s);
  job.mfu = of_step.mfu.value_or(0.0);
  job.tokens_per_step = run.facts.tokens_per_step;
  set_elastic(scenario, memo, job);
  return job;
}

}  // namespace trainyard
