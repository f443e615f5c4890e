// A training job as its interruptions see it: plain numbers, without a cluster or a model.
//
//    Memo memo;
//    const Job job = job_of(scenario, memo);   // scenario_job.hpp
//    sampled_run(job, {.wall_s = 54 * 86400.0}, 0, 0);
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reliability/reliability.hpp"
#include "sim/report/interval.hpp"

namespace trainyard {

// Interruptions of one cause.
struct InterruptionCause {
  std::string name;
  FailureKind kind = FailureKind::Fatal;
  double rate = 0.0;           // per second, of the whole job with all replicas
  double weibull_shape = 1.0;  // of the times between them
  bool of_parts = true;        // with fewer nodes there are fewer
  std::int64_t nodes = 0;      // nodes side by side that one event takes; 0: none
  double detect_s = 0.0;       // infinite for a slow part that nobody looks for
  double diagnose_s = 0.0;
  double duration_s = 0.0;  // mean; infinite for a slow part that does not recover
  double give_up_s = std::numeric_limits<double>::infinity();
  std::optional<std::vector<double>> trace_s = {};  // times from a log, in place of random ones
};

struct SpareNodes {
  std::int64_t nodes = 0;
  double replace_s = 0.0;
  std::optional<double> cold_replace_s = {};
  std::int64_t cold_nodes = 0;          // 0: no limit
  std::optional<double> repair_s = {};  // mean
  RepairDistribution repair_distribution = RepairDistribution::Exponential;
  double repair_sigma = 1.0;
  double manual_share = 0.0;
  double manual_repair_s = 0.0;  // mean
};

// Copies of the state of training in one place.
struct CheckpointLevel {
  std::string name = "storage";
  std::int64_t interval_steps = 1;
  double stall_s = 0.0;  // of one checkpoint
  double write_s = 0.0;  // beside training, after the stall
  double drag_s = 0.0;   // by which that write delays training
  double load_s = 0.0;
  std::int64_t copies = 0;  // nodes that hold the same part; 0: no failure destroys it
};

// A slow part of a job: the cause that slowed it, and the pipeline stage of its node.
struct SlowPart {
  std::size_t cause = 0;
  std::int64_t stage = 0;
  auto operator<=>(const SlowPart&) const = default;
};

// The differences from the whole job that change the time of a step. Lists are sorted.
struct JobState {
  std::int64_t replicas_lost = 0;               // elastic
  std::vector<std::int64_t> empty_stages = {};  // redundant and reroute: of each missing node
  std::vector<SlowPart> slow = {};
  std::size_t phase = 0;  // of Job::phases
  auto operator<=>(const JobState&) const = default;
};

// A part of the run whose steps have another batch or sequence length than those of other parts.
struct TrainingPhase {
  double from_tokens = 0.0;  // as the scenario gives it
  double from_step = 0.0;    // the first whole step after that, of all replicas
  double step_s = 0.0;
  double policy_step_s = 0.0;
  double tokens_per_step = 0.0;
  double mfu = 0.0;
  std::int64_t interval_steps = 1;   // between checkpoints in storage
  std::vector<double> drags_s = {};  // of writes, by level; empty: those of the levels
  std::int64_t global_batch_size = 0;
  std::int64_t sequence_length = 0;
};

struct Job {
  std::vector<InterruptionCause> causes;
  double step_s = 0.0;
  double policy_step_s = 0.0;  // with the work that the policy adds; 0: the same
  std::vector<CheckpointLevel> levels{CheckpointLevel{}};  // the quickest first; storage is last
  std::int64_t kept = 0;                                   // checkpoints that storage keeps; 0: all
  std::vector<PauseSettings> pauses;
  std::vector<TrainingPhase> phases;  // the first begins with the run; none: all steps are alike
  double misdiagnosis = 0.0;          // probability of one
  double queue_s = 0.0;               // mean wait before a restart
  double start_s = 0.0;
  double communicator_init_s = 0.0;
  double warm_up_s = 0.0;
  double reconfigure_s = 0.0;
  SpareNodes spares = {};
  LemonSettings lemons = {};
  std::optional<HealthCheckSettings> health_check = {};
  FailurePolicy policy = FailurePolicy::Restart;
  std::int64_t backup_replicas = 0;
  std::int64_t replicas = 1;
  std::int64_t replica_unit = 1;  // elastic: so many leave together (scenario_job.cpp)
  double nodes_per_replica = 1.0;
  std::int64_t stages = 1;
  // The pipeline stage of every GPU, node by node. Nothing: the stages of slots are those of
  // policy.hpp.
  std::shared_ptr<const std::vector<std::int64_t>> stage_of_gpu = {};
  // The time of a step in a state. Each state is simulated once.
  std::function<double(const JobState&)> step_in = {};
  // The time in which a job that trains on moves layers between stages when its state changes
  // from the first to the second. Without it none move.
  std::function<double(const JobState&, const JobState&)> move_s = {};
  // Whether a job with so many replicas less fits into the memory of its GPUs and hosts. Sharded
  // over fewer replicas, each rank holds more. Without it all do.
  std::function<bool(std::int64_t)> fits = {};
  // States that were simulated, and how often one was asked for.
  std::function<std::pair<std::size_t, std::size_t>()> states = {};

  // For reports.
  double tokens_per_step = 0.0;
  double mfu = 0.0;
  std::int64_t gpus = 0;                           // with those of the spare nodes
  std::optional<double> gpu_hour_price = {};       // in any currency
  std::string price_source = {};                   // of a price that the scenario names or implies
  std::optional<StepInterval> step_interval = {};  // none for a step that is not predicted
  double checkpoint_bytes = 0.0;
  std::string memory_problem = {};  // "DOES NOT FIT: ..."; empty: the whole job fits
  bool optimal_interval = false;    // the scenario leaves it to the optimum
  bool interval_is_run = false;     // the optimum is longer than the run
  std::vector<std::string> absent;  // phases that the scenario does not give

  [[nodiscard]] const CheckpointLevel& storage() const { return levels.back(); }
  [[nodiscard]] CheckpointLevel& storage() { return levels.back(); }
  // Nodes at work, those of both twins where every node has one.
  [[nodiscard]] std::int64_t nodes() const;
  // Mean time between failures that are fatal or silent; infinite without any.
  [[nodiscard]] double mtbf_s() const;
  // The same of those after which the job reads storage: not those that its policy trains through,
  // nor those that a near checkpoint survives. Where no cause is one, several failures at a time
  // are, and all causes count.
  [[nodiscard]] double storage_mtbf_s() const;
  [[nodiscard]] bool has_cause_that_reads_storage() const;
  // Time that training loses to a checkpoint in storage: its stall, and the drag of its write.
  [[nodiscard]] double checkpoint_loss_s() const { return storage().stall_s + storage().drag_s; }
  // Whether an elastic job trains with so many replicas less. If the whole job does not fit, which
  // the report says, the figures are those of a job that did.
  [[nodiscard]] bool trains_without(std::int64_t lost) const {
    return !fits || !memory_problem.empty() || fits(lost);
  }
  // The steps of a phase with all replicas; its last step, infinite for the last phase; the phase
  // after so many steps. REQUIRES: the phase is 0, or one of the list.
  [[nodiscard]] double step_of(std::size_t phase) const;
  [[nodiscard]] double policy_step_of(std::size_t phase) const;
  [[nodiscard]] std::int64_t interval_of(std::size_t phase) const;
  [[nodiscard]] double drag_of(std::size_t phase, std::size_t level) const;
  [[nodiscard]] double end_of(std::size_t phase) const;
  [[nodiscard]] std::size_t phase_at(double steps) const;
  // Steps until so many tokens are trained, and tokens that so many steps train.
  [[nodiscard]] double steps_for(double tokens) const;
  [[nodiscard]] double tokens_of(double steps) const;
  // Sets the interval between checkpoints in storage, and those of the phases in proportion.
  void set_interval(std::int64_t steps);
  // Nodes that do the same work: two with the policy of twins, else one.
  [[nodiscard]] std::int64_t copies() const { return policy == FailurePolicy::Mirrored ? 2 : 1; }
  // Replicas that cannot run if so many nodes are missing.
  [[nodiscard]] std::int64_t replicas_lost(std::int64_t missing_nodes) const;
};

}  // namespace trainyard
