#include "tools/studies/goodput/scenario_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "models/architecture/memory.hpp"
#include "models/rank_groups.hpp"
#include "models/reliability/checkpoint_interval.hpp"
#include "models/reliability/slowdown.hpp"
#include "models/stragglers.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/report/energy_figures.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/goodput/components.hpp"
#include "tools/studies/goodput/run/draws.hpp"
#include "tools/studies/goodput/run/policy.hpp"
#include "tools/studies/goodput/state_steps.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(const Scenario& scenario, const std::string& field, std::string problem,
                         std::string hint) {
  throw InputError(Problem{.file = scenario.file,
                           .pointer = "/reliability" + field,
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

double seconds_or(const std::optional<Seconds>& time, double otherwise) {
  return time ? time->value() : otherwise;
}

// A slow part or a wrong result stops nothing until someone finds it.
bool is_hidden(const FailureProcess& failure) {
  return failure.kind == FailureKind::Degrading || failure.kind == FailureKind::Silent;
}

// A hidden failure is found after its own time alone: nothing times out.
double detection(const FailureProcess& failure, const RecoverySettings& recovery) {
  const double otherwise = is_hidden(failure) ? kNever : seconds_or(recovery.detect, 0.0);
  return seconds_or(failure.detect, otherwise);
}

// Whether a failure ever has to be diagnosed: a planned stop has no cause to look for, the job
// waits out a transient failure without a limit, and a hidden one must be found first.
bool is_diagnosed(const FailureProcess& failure, const Reliability& all) {
  if (failure.kind == FailureKind::Planned) return false;
  if (failure.kind == FailureKind::Transient) return failure.give_up.has_value();
  return !is_hidden(failure) || failure.detect || all.health_check;
}

// The nodes that an event takes out of the job. A transient failure passes, a planned stop breaks
// nothing, and a failure of software leaves its node sound.
std::int64_t nodes_taken(const FailureProcess& failure, const Scenario& scenario) {
  const bool can_take =
      failure.kind != FailureKind::Transient && failure.kind != FailureKind::Planned;
  if (!can_take || !failure.replaces_node) return 0;
  return failure.nodes.value_or(nodes_of_component(scenario.cluster, failure.component,
                                                   scenario.reliability->nodes_per_rack));
}

InterruptionCause cause_of(const FailureProcess& failure, const Scenario& scenario) {
  const Reliability& all = *scenario.reliability;
  const bool lasts = failure.kind == FailureKind::Degrading;
  const bool of_parts =
      failure.component != FailingComponent::Job && failure.component != FailingComponent::Storage;
  InterruptionCause cause{
      .name = failure.cause,
      .kind = failure.kind,
      .rate = all.rate_factor * failure.rate_per_component_s() *
              component_count(scenario.cluster, failure.component, all.nodes_per_rack),
      .weibull_shape = failure.weibull_shape,
      .of_parts = of_parts,
      .nodes = nodes_taken(failure, scenario),
      .detect_s = detection(failure, all.recovery),
      .diagnose_s = seconds_or(failure.diagnose, seconds_or(all.recovery.diagnose, 0.0)),
      .duration_s = seconds_or(failure.duration, lasts ? kNever : 0.0)};
  if (failure.give_up) cause.give_up_s = failure.give_up->value();
  // The scenario describes one copy of the job, and its twin has as many parts again.
  if (all.policy == FailurePolicy::Mirrored && of_parts) cause.rate *= 2.0;
  return cause;
}

SpareNodes spares_of(const SpareSettings& settings) {
  SpareNodes spares{.nodes = settings.nodes,
                    .replace_s = seconds_or(settings.replace, 0.0),
                    .cold_nodes = settings.cold_nodes,
                    .repair_distribution = settings.repair_distribution,
                    .repair_sigma = settings.repair_sigma};
  if (settings.cold_replace) spares.cold_replace_s = settings.cold_replace->value();
  if (settings.repair) spares.repair_s = settings.repair->value();
  spares.manual_share = settings.manual_share;
  spares.manual_repair_s = seconds_or(settings.manual_repair, 0.0);
  return spares;
}

// The nodes that write storage: all of them, or those of one replica.
double writers(const Scenario& scenario) {
  const double nodes = scenario.cluster.nodes;
  if (!scenario.reliability->checkpoint.one_replica_writes) return nodes;
  return std::max(1.0, nodes / static_cast<double>(scenario.plan.parallelism.data));
}

// The time to move a checkpoint to or from storage. The file system limits the rate of the whole
// job and the NICs that of each node; the slower of the two decides.
double storage_time(const Scenario& scenario, double bytes,
                    const std::optional<BytesPerSecond>& rate) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  double time_s = rate ? (Bytes{bytes} / *rate).value() : 0.0;
  if (checkpoint.node_rate)
    time_s = std::max(time_s, bytes / writers(scenario) / checkpoint.node_rate->value());
  return time_s + seconds_or(checkpoint.metadata, 0.0);
}

// Times that are given have precedence over bytes and rates. A stall that is given means that the
// write goes on beside training after it; without one, training waits for the whole write.
CheckpointLevel storage_level(const Scenario& scenario, double bytes) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  const double write_s = storage_time(scenario, bytes, checkpoint.write_rate);
  return {
      .stall_s = seconds_or(checkpoint.stall, write_s),
      .write_s = seconds_or(checkpoint.write, checkpoint.stall ? write_s : 0.0),
      .drag_s = seconds_or(checkpoint.drag, 0.0),
      .load_s = seconds_or(checkpoint.load, storage_time(scenario, bytes, checkpoint.read_rate))};
}

// Each node copies its share of the state, to itself and to other nodes. A node keeps two of them,
// since the last complete one stays until the next one is.
CheckpointLevel near_level(const Scenario& scenario, std::size_t index, double bytes) {
  const NearCheckpoint& near = scenario.reliability->checkpoint.near[index];
  if (near.copies > scenario.cluster.nodes)
    refuse(scenario, fmt::format("/checkpoint/near/{}/copies", index),
           fmt::format("{} copies need as many nodes, and there are {}", near.copies,
                       scenario.cluster.nodes),
           "use more nodes or fewer copies");
  const double of_node = bytes / scenario.cluster.nodes;
  const double held = 2.0 * of_node * static_cast<double>(near.copies);
  if (near.capacity && held > near.capacity->value())
    refuse(scenario, fmt::format("/checkpoint/near/{}/capacity", index),
           fmt::format("two checkpoints with {} copies are {} on each node, which has {}",
                       near.copies, to_text(Bytes{held}), to_text(*near.capacity)),
           "use more nodes, fewer copies, or another level");
  // A single copy goes to the node's own memory or disk. Of several, all but one are sent.
  const double moved = of_node * static_cast<double>(std::max<std::int64_t>(1, near.copies - 1));
  const auto at = [](const std::optional<BytesPerSecond>& rate, double all) {
    return rate ? all / rate->value() : 0.0;
  };
  return {.name = near.name,
          .interval_steps = near.interval_steps,
          .stall_s = seconds_or(near.stall, at(near.write_rate, moved)),
          .write_s = seconds_or(near.write, near.stall ? at(near.write_rate, moved) : 0.0),
          .drag_s = seconds_or(near.drag, 0.0),
          .load_s = seconds_or(near.load, at(near.read_rate, of_node)),
          .copies = near.copies};
}

void set_checkpoints(const Scenario& scenario, Job& job) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  job.checkpoint_bytes = checkpoint.bytes ? checkpoint.bytes->value() : checkpoint_bytes(scenario);
  job.kept = checkpoint.kept;
  job.levels.clear();
  for (std::size_t i = 0; i < checkpoint.near.size(); ++i)
    job.levels.push_back(near_level(scenario, i, job.checkpoint_bytes));
  job.levels.push_back(storage_level(scenario, job.checkpoint_bytes));
}

// A time that grows with each doubling of the GPUs over those for which it is given: 30 s on 1024
// GPUs with 10 s a doubling are 50 s on 4096, and 20 s on 512.
double grown(double time_s, const std::optional<Seconds>& per_doubling, const Scenario& scenario) {
  if (!per_doubling) return time_s;
  const std::int64_t given = scenario.reliability->recovery.gpus;
  if (given == 0)
    refuse(scenario, "/recovery/gpus", "is missing: a time grows with each doubling of it",
           "give the number of GPUs for which the times hold");
  const double doublings = std::log2(gpu_count(scenario.cluster) / static_cast<double>(given));
  return std::max(0.0, time_s + doublings * per_doubling->value());
}

// A time that the scenario does not give is zero. Reports name these phases (Job::absent), since
// they make the goodput too high.
void set_recovery(const Scenario& scenario, Job& job) {
  const RecoverySettings& recovery = scenario.reliability->recovery;
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  const auto take = [&job](const char* name, const std::optional<Seconds>& time) {
    if (!time) job.absent.emplace_back(name);
    return seconds_or(time, 0.0);
  };
  job.misdiagnosis = recovery.misdiagnosis;
  // These two are times of each cause (cause_of), which may have its own.
  bool detects = false;
  bool diagnoses = false;
  for (const FailureProcess& one : scenario.reliability->failures) {
    if (!is_diagnosed(one, *scenario.reliability)) continue;
    detects = detects || (!one.detect && !is_hidden(one));
    diagnoses = diagnoses || !one.diagnose;
  }
  if (detects) (void)take("detect", recovery.detect);
  if (diagnoses) (void)take("diagnose", recovery.diagnose);
  job.queue_s = seconds_or(recovery.queue, 0.0);
  job.start_s = grown(take("start", recovery.start), recovery.start_per_doubling, scenario);
  job.communicator_init_s = grown(take("communicator_init", recovery.communicator_init),
                                  recovery.communicator_init_per_doubling, scenario);
  if (!checkpoint.load && !checkpoint.read_rate && !checkpoint.node_rate && !checkpoint.metadata)
    job.absent.emplace_back("load");
  job.warm_up_s = take("warm_up", recovery.warm_up);
  job.reconfigure_s = trains_on(job.policy) ? take("reconfigure", recovery.reconfigure) : 0.0;
}

// The time between two checkpoints that is asked for. REQUIRES: it is not given in steps.
double interval_seconds(const Scenario& scenario, const Job& job) {
  const std::optional<Seconds>& interval = scenario.reliability->checkpoint.interval;
  return interval ? interval->value()
                  : reliability::exact_interval(job.checkpoint_loss_s(), job.storage_mtbf_s());
}

// The same in whole steps, at least one. An optimal one is as long as the write at least.
std::int64_t steps_of_interval(const Scenario& scenario, const Job& job, double step_s) {
  const std::int64_t steps =
      std::max<std::int64_t>(1, std::llround(interval_seconds(scenario, job) / step_s));
  if (!job.optimal_interval) return steps;
  return std::max(steps, static_cast<std::int64_t>(std::ceil(job.storage().write_s / step_s)));
}

void set_interval(const Scenario& scenario, Job& job) {
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  CheckpointLevel& storage = job.storage();
  job.optimal_interval = !checkpoint.interval && checkpoint.interval_steps == 0;
  if (job.optimal_interval) {
    if (!std::isfinite(job.storage_mtbf_s()))
      refuse(scenario, "/checkpoint/interval", "without failures no interval is the best",
             "give a time, such as \"1 h\"");
    storage.interval_steps = steps_of_interval(scenario, job, job.step_s);
    return;
  }
  storage.interval_steps = checkpoint.interval_steps > 0
                               ? checkpoint.interval_steps
                               : steps_of_interval(scenario, job, job.step_s);
  // An optimal interval is never shorter than the write (steps_of_interval). A given one may be.
  const double interval_s = static_cast<double>(storage.interval_steps) * job.step_s;
  if (storage.write_s > interval_s)
    refuse(scenario, "/checkpoint",
           fmt::format("a write of {} is longer than the interval of {} steps, {}",
                       to_text(Seconds{storage.write_s}), storage.interval_steps,
                       to_text(Seconds{interval_s})),
           "lengthen the interval, or write faster");
}

// A near checkpoint that is written beside training must be complete before the next one.
void check_near_intervals(const Scenario& scenario, const Job& job) {
  for (std::size_t i = 0; i + 1 < job.levels.size(); ++i) {
    const CheckpointLevel& level = job.levels[i];
    const double interval_s = static_cast<double>(level.interval_steps) * job.step_s;
    if (level.write_s > interval_s)
      refuse(
          scenario, fmt::format("/checkpoint/near/{}/interval_steps", i),
          fmt::format("a write of {} is longer than {} steps, {}", to_text(Seconds{level.write_s}),
                      level.interval_steps, to_text(Seconds{interval_s})),
          "write less often, or faster");
  }
}

// A node that trains on without another must know which work that one did.
void check_nodes_of_policy(const Scenario& scenario, const Job& job) {
  if (!trains_on(job.policy) || job.policy == FailurePolicy::Mirrored) return;
  const double per_stage = job.nodes_per_replica / static_cast<double>(job.stages);
  if (!scenario.plan.parallelism.tensor_per_stage.empty())
    refuse(scenario, "/policy", "stages of unequal size cannot stand in for each other",
           "take another policy, or leave parallelism.tensor_per_stage out");
  // place_of() of policy.cpp numbers slots stage by stage and needs whole nodes for each stage.
  if (per_stage >= 1.0 && per_stage == std::floor(per_stage)) return;
  refuse(scenario, "/policy",
         fmt::format("a node holds more than one stage of one replica: {} nodes for {} stages",
                     job.nodes_per_replica, job.stages),
         "set parallelism.tensor x context to the GPUs of a node or a multiple, or take another "
         "policy");
}

// A step of n + b replicas needs the first n of them: it waits less for the slowest, and does
// n/(n + b) of the work. The predicted step waits for all n + b with the exponential delays of
// models/stragglers.hpp, so its time is scaled by the ratio of the two waits.
double backup_step(const Scenario& scenario, const Job& job) {
  if (!scenario.stragglers) return job.step_s;
  const double delay = load_stragglers().delay;
  const std::int64_t needed = job.replicas - job.backup_replicas;
  const double all = 1.0 + delay * (reliability::exponential_maximum(job.replicas) - 1.0);
  const double some = 1.0 + delay * (reliability::backup_wait(needed, job.backup_replicas) - 1.0);
  return job.step_s * some / all;
}

// By level: the time by which a write beside training delays steps of this scenario, of `step_s`
// each. It follows from a simulated step whose NICs have the rate that the write leaves. Steps of
// 10 s that take 12.5 s beside a write proceed at 4/5 of their rate, so a write of 50 s delays
// training by 10 s. A time that the scenario of the job gives has precedence.
std::vector<double> drags_of_writes(const Scenario& scenario, const Scenario& of_step,
                                    double step_s, StateSteps& steps, const Job& job) {
  const auto drag = [&](const CheckpointLevel& level, const std::optional<Seconds>& given,
                        double node_bytes, std::int64_t nodes) {
    if (given || level.write_s <= 0.0 || node_bytes <= 0.0) return seconds_or(given, 0.0);
    const double beside_s = steps.step_beside_write(of_step, node_bytes / level.write_s, nodes);
    return level.write_s * std::max(0.0, 1.0 - step_s / beside_s);
  };
  const CheckpointSettings& checkpoint = scenario.reliability->checkpoint;
  const std::int64_t nodes = scenario.cluster.nodes;
  const double of_node = job.checkpoint_bytes / static_cast<double>(nodes);
  std::vector<double> drags_s;
  for (std::size_t i = 0; i < checkpoint.near.size(); ++i) {
    const NearCheckpoint& near = checkpoint.near[i];
    // A copy in the node's own memory or disk does not pass a NIC.
    const double sent = of_node * static_cast<double>(near.copies - 1);
    drags_s.push_back(drag(job.levels[i], near.drag, sent, nodes));
  }
  const double writing = writers(scenario);
  drags_s.push_back(
      drag(job.storage(), checkpoint.drag, job.checkpoint_bytes / writing, std::llround(writing)));
  return drags_s;
}

// A phase begins with the first whole step after its tokens, and at least one step after the phase
// before it, so that no phase is empty.
TrainingPhase phase_after(const Job& job, const ScenarioPhase& phase) {
  const Training& training = phase.scenario.plan.training;
  TrainingPhase one{.from_tokens = phase.from_tokens,
                    .global_batch_size = training.global_batch_size,
                    .sequence_length = training.sequence_length};
  if (job.phases.empty()) return one;
  const TrainingPhase& last = job.phases.back();
  const double trained = job.tokens_of(last.from_step);
  const double steps = std::ceil((phase.from_tokens - trained) / last.tokens_per_step);
  one.from_step = last.from_step + std::max(1.0, steps);
  return one;
}

// The writes of all levels must be complete before the next ones in each phase.
void check_writes_of_phase(const Scenario& scenario, const Job& job, const TrainingPhase& phase) {
  for (const CheckpointLevel& level : job.levels) {
    const std::int64_t steps =
        &level == &job.storage() ? phase.interval_steps : level.interval_steps;
    if (level.write_s <= static_cast<double>(steps) * phase.step_s) continue;
    refuse(scenario, "/phases",
           fmt::format("from {:.4g} tokens on, a write of {} is longer than {} steps, {}",
                       phase.from_tokens, to_text(Seconds{level.write_s}), steps,
                       to_text(Seconds{static_cast<double>(steps) * phase.step_s})),
           "write less often, or faster");
  }
}

std::int64_t interval_of_phase(const Scenario& scenario, const Job& job, const ScenarioPhase& phase,
                               double step_s) {
  if (phase.interval_steps > 0) return phase.interval_steps;
  if (scenario.reliability->checkpoint.interval_steps > 0) return job.storage().interval_steps;
  return steps_of_interval(scenario, job, step_s);
}

// The phases in the order of time: phase_after() needs the tokens of the steps of those before. An
// interval between checkpoints that is a time becomes another number of steps in each phase.
void set_phases(const Scenario& scenario, Memo& memo, StateSteps& steps, Job& job) {
  for (const ScenarioPhase& of_scenario : steps.phases()) {
    TrainingPhase phase = phase_after(job, of_scenario);
    const Result run = simulate(of_scenario.scenario, {.figures = false}, memo);
    const Figures of_step = figures(run.view());
    phase.step_s = of_step.step_time_s;
    phase.mfu = of_step.mfu.value_or(0.0) / static_cast<double>(job.copies());
    phase.tokens_per_step = run.facts.tokens_per_step;
    phase.policy_step_s = job.policy == FailurePolicy::Redundant
                              ? steps.redundant_step(of_scenario.scenario)
                              : phase.step_s * job.policy_step_s / job.step_s;
    phase.interval_steps = interval_of_phase(scenario, job, of_scenario, phase.step_s);
    phase.drags_s = drags_of_writes(scenario, of_scenario.scenario, phase.step_s, steps, job);
    check_writes_of_phase(scenario, job, phase);
    job.phases.push_back(std::move(phase));
  }
}

// The least number of replicas by which a job may become smaller: the others still divide among
// experts and sharded copies, and fill their nodes. With 2 ranks of a stage in each replica, 8
// expert ranks and 8 GPUs a node, 4 replicas leave together.
std::int64_t replicas_that_leave(const Scenario& scenario) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const std::int64_t of_stage = sizes.tensor * sizes.context;
  const std::int64_t of_experts = sizes.expert * sizes.expert_tensor_size();
  const auto of_node = static_cast<std::int64_t>(scenario.cluster.node.gpus);
  const std::int64_t of_replica = sizes.ranks_of_replica();
  return std::lcm(std::lcm(of_experts / std::gcd(of_experts, of_stage),
                           of_node / std::gcd(of_node, of_replica)),
                  std::max<std::int64_t>(1, sizes.shard));
}

// The functions of the job share one StateSteps, and so the states that it has simulated.
// set_phases() scales policy_step_s and therefore comes last.
void set_policy(const Scenario& scenario, Memo& memo, Job& job) {
  const Parallelism& sizes = scenario.plan.parallelism;
  job.replicas = sizes.data;
  job.stages = sizes.pipeline;
  job.nodes_per_replica =
      static_cast<double>(scenario.cluster.nodes) / static_cast<double>(sizes.data);
  if (job.policy == FailurePolicy::Elastic) job.replica_unit = replicas_that_leave(scenario);
  check_nodes_of_policy(scenario, job);
  const auto steps = std::make_shared<StateSteps>(scenario, memo);
  job.step_in = [steps](const JobState& state) { return steps->step_in(state); };
  job.move_s = [steps](const JobState& from, const JobState& to) {
    return steps->move_s(from, to);
  };
  job.fits = [steps](std::int64_t lost) { return steps->fits_without(lost); };
  job.states = [steps] { return std::pair(steps->simulated(), steps->asked()); };
  const std::vector<double> drags_s = drags_of_writes(scenario, scenario, job.step_s, *steps, job);
  for (std::size_t level = 0; level < drags_s.size(); ++level)
    job.levels[level].drag_s = drags_s[level];
  job.policy_step_s = job.step_s;
  if (job.policy == FailurePolicy::Redundant) job.policy_step_s = steps->redundant_step(scenario);
  if (job.policy == FailurePolicy::Backup) {
    job.policy_step_s = backup_step(scenario, job);
    // A step with a slow part waits less, too.
    job.step_in = [steps, share = job.policy_step_s / job.step_s](const JobState& state) {
      return share * steps->step_in(state);
    };
  }
  // The optimal interval depends on the drags.
  set_interval(scenario, job);
  check_near_intervals(scenario, job);
  set_phases(scenario, memo, *steps, job);
}

}  // namespace

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

namespace {

// The job without what depends on its policy and its interval between checkpoints.
Job job_without_interval(const Scenario& scenario, double step_s) {
  const Reliability& all = *scenario.reliability;
  Job job;
  job.step_s = job.policy_step_s = step_s;
  for (const FailureProcess& failure : all.failures)
    job.causes.push_back(cause_of(failure, scenario));
  job.spares = spares_of(all.spares);
  job.lemons = all.lemons;
  job.pauses = all.pauses;
  job.health_check = all.health_check;
  job.policy = all.policy;
  job.backup_replicas = all.backup_replicas;
  job.nodes_per_replica = scenario.cluster.nodes;
  job.gpus = (job.nodes() + job.spares.nodes) * scenario.cluster.node.gpus;
  set_checkpoints(scenario, job);
  set_recovery(scenario, job);
  return job;
}

// The pipeline stage of every GPU. Workers of local steps, and nodes of servers, are alike.
std::vector<std::int64_t> stages_of_gpus(const Scenario& scenario) {
  const Parallelism& sizes = scenario.plan.parallelism;
  const RankGrid grid(sizes);
  std::vector<std::int64_t> stages(static_cast<std::size_t>(gpu_count(scenario.cluster)), 0);
  const auto ranks = static_cast<RankId>(grid.world() * scenario.plan.workers());
  for (RankId rank = 0; rank < ranks; ++rank)
    stages.at(gpu_of_rank(sizes, rank)) = grid.position(rank).pipeline;
  return stages;
}

// The price of a GPU-hour that `run` takes. What a bought GPU costs is without electricity, since
// how much of it a job needs that waits is not known.
void set_price(const RunFacts& facts, Job& job) {
  job.gpu_hour_price = facts.gpu_hour_price;
  if (!facts.gpu_hour_price_source.empty())
    job.price_source = "price preset: " + facts.gpu_hour_price_source;
  if (job.gpu_hour_price) return;
  job.gpu_hour_price = capital_per_gpu_hour(facts.energy_prices);
  if (job.gpu_hour_price) job.price_source = "capital over its years, without electricity";
}

// A fault with dates happens once, in the step that `run` simulates. Every step of a long run would
// have it.
void refuse_dated_faults(const Scenario& scenario) {
  const std::vector<Fault>& faults = scenario.cluster.faults;
  const auto dated = std::ranges::find_if(faults, &Fault::is_timed);
  if (dated == faults.end()) return;
  throw InputError(
      Problem{.file = scenario.file,
              .pointer = fmt::format("/cluster/faults/{}", std::distance(faults.begin(), dated)),
              .problem = "has dates, which are those of one step, not of a long run",
              .hint = "leave the dates out, or describe it under /reliability/failures"});
}

}  // namespace

// The interval comes after the causes and the checkpoints: its optimum depends on both.
Job job_with_step(const Scenario& scenario, double step_s) {
  Job job = job_without_interval(scenario, step_s);
  set_interval(scenario, job);
  check_near_intervals(scenario, job);
  return job;
}

void refuse_without_reliability(const Scenario& scenario) {
  if (!scenario.reliability)
    refuse(scenario, "", "the scenario does not say what fails",
           "take a preset: --preset llama3; `trainyard list reliability` lists them");
}

Job job_of(const Scenario& scenario, Memo& memo) {
  refuse_without_reliability(scenario);
  refuse_dated_faults(scenario);
  const Result run = simulate(scenario, {}, memo);
  const Figures of_step = figures(run.view());
  Job job = job_without_interval(scenario, of_step.step_time_s);
  if (!everything_fits(run.view())) job.memory_problem = verdict_line(run.view());
  job.step_interval = run.facts.interval;
  set_price(run.facts, job);
  // MFU counts all GPUs, and those of a copy repeat the work of the others.
  job.mfu = of_step.mfu.value_or(0.0) / static_cast<double>(job.copies());
  job.tokens_per_step = run.facts.tokens_per_step;
  job.stage_of_gpu = std::make_shared<const std::vector<std::int64_t>>(stages_of_gpus(scenario));
  set_policy(scenario, memo, job);
  return job;
}

}  // namespace trainyard
