// A training job as its interruptions see it: plain numbers, without a cluster or a model.
//
//    Memo memo;
//    const Job job = job_of(scenario, memo);   // simulates the step
//    sampled_run(job, {.wall_s = 54 * 86400.0}, 0, 0);
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/reliability/reliability.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/memo.hpp"

namespace trainyard {

// Interruptions of one cause.
struct InterruptionCause {
  std::string name;
  FailureKind kind = FailureKind::Fatal;
  double rate = 0.0;           // per second, of the whole job with all replicas
  double weibull_shape = 1.0;  // of the times between them
  bool of_parts = true;        // with fewer replicas there are fewer
  bool replaces_node = false;
  double detect_s = 0.0;
  double diagnose_s = 0.0;
  double duration_s = 0.0;  // transient: mean
  double give_up_s = std::numeric_limits<double>::infinity();
};

struct SpareNodes {
  std::int64_t nodes = 0;
  double replace_s = 0.0;
  std::optional<double> cold_replace_s = {};
  std::optional<double> repair_s = {};  // mean
  RepairDistribution repair_distribution = RepairDistribution::Exponential;
  double repair_sigma = 1.0;
};

struct Job {
  std::vector<InterruptionCause> causes;
  double step_s = 0.0;
  std::int64_t interval_steps = 1;  // between checkpoints
  double stall_s = 0.0;             // of one checkpoint
  double write_s = 0.0;             // beside training, after the stall
  double start_s = 0.0;
  double communicator_init_s = 0.0;
  double load_s = 0.0;
  double warm_up_s = 0.0;
  SpareNodes spares = {};
  FailurePolicy policy = FailurePolicy::Restart;
  std::int64_t replicas = 1;
  double nodes_per_replica = 1.0;
  // Elastic: time of a step with so many replicas fewer. Each is simulated once.
  std::function<double(std::int64_t)> step_with_fewer = {};

  // For reports.
  double tokens_per_step = 0.0;
  double mfu = 0.0;
  std::int64_t gpus = 0;  // with those of the spare nodes
  double checkpoint_bytes = 0.0;
  bool optimal_interval = false;    // the scenario leaves it to the optimum
  std::vector<std::string> absent;  // phases that the scenario does not give

  // Mean time between failures that stop the job and lose work; infinite without any.
  [[nodiscard]] double mtbf_s() const;
  // Replicas that cannot run if so many nodes are missing.
  [[nodiscard]] std::int64_t replicas_lost(std::int64_t missing_nodes) const;
};

// Simulates the step of the scenario and derives the job. Throws InputError where the scenario has
// no reliability block, or the block does not suffice.
[[nodiscard]] Job job_of(const Scenario& scenario, Memo& memo);

// The same with the time of a step that is known, without replicas to lose: nothing is simulated.
[[nodiscard]] Job job_with_step(const Scenario& scenario, double step_s);

// Bytes of a checkpoint: weights and optimizer state of every parameter, without gradients.
[[nodiscard]] double checkpoint_bytes(const Scenario& scenario);

}  // namespace trainyard
