// A scenario's block "reliability" describes the weeks around a step: how often parts fail, how
// checkpoints are written, how the job recovers, which spare nodes there are. The reader of
// scenarios fills these plain values (scenarios/reader/reliability.hpp), and tools/studies/goodput
// simulates them.
//
//    Reliability r = ...;
//    r.failures[0].rate_per_component_s();   // 148 events in 884 736 GPU-days: 1.94e-9 /s
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

inline constexpr double kSecondsPerDay = 86400.0;

// Fatal: the job stops and loses the work since the last complete checkpoint. Transient: all ranks
// wait, and the job goes on. Planned: the job writes a checkpoint, stops and starts again.
enum class FailureKind : std::uint8_t { Fatal, Transient, Planned };

// The part that fails. A job has one part "job".
enum class FailingComponent : std::uint8_t { Gpu, Nic, Node, Job };

// The policy where no node replaces a failed one: wait for one, or go on with fewer replicas.
enum class FailurePolicy : std::uint8_t { Restart, Elastic };

enum class RepairDistribution : std::uint8_t { Fixed, Exponential, Lognormal };

// Interruptions of one cause. Their rate is that of a count: events in so many component-days.
struct FailureProcess {
  std::string cause = {};
  FailureKind kind = FailureKind::Fatal;
  FailingComponent component = FailingComponent::Gpu;
  double events = 0.0;
  double component_days = 0.0;
  // Shape of the Weibull distribution of the times between the job's interruptions of this cause; 1
  // is exponential, below 1 they come in clusters.
  double weibull_shape = 1.0;
  bool replaces_node = true;             // fatal: the node goes to repair
  std::optional<Seconds> detect = {};    // in place of those of the recovery
  std::optional<Seconds> diagnose = {};  //
  std::optional<Seconds> duration = {};  // transient: mean, exponentially distributed
  std::optional<Seconds> give_up = {};   // transient: a longer one stops the job
  std::string source = {};

  [[nodiscard]] double rate_per_component_s() const {
    return component_days > 0.0 ? events / (component_days * kSecondsPerDay) : 0.0;
  }
  bool operator==(const FailureProcess&) const = default;
};

// Times that are given have precedence; bytes and rates give the others.
struct CheckpointSettings {
  std::optional<Bytes> bytes = {};  // of one checkpoint; without it, those of the memory model
  std::optional<BytesPerSecond> write_rate = {};  // of the whole job
  std::optional<BytesPerSecond> read_rate = {};
  std::optional<Seconds> stall = {};  // that training stops for each checkpoint
  std::optional<Seconds> write = {};  // after the stall, beside training
  std::optional<Seconds> load = {};
  std::optional<Seconds> interval = {};  // between checkpoints; nothing: the optimum
  std::int64_t interval_steps = 0;       // the same in steps; 0: not given
  std::string source = {};
  bool operator==(const CheckpointSettings&) const = default;
};

// Phases from a failure until training goes on, in the order of time. Nothing: no time. Loading is
// part of the checkpoint, replacement of the spares.
struct RecoverySettings {
  std::optional<Seconds> detect = {};
  std::optional<Seconds> diagnose = {};
  std::optional<Seconds> start = {};
  std::optional<Seconds> communicator_init = {};
  std::optional<Seconds> warm_up = {};
  std::string source = {};
  bool operator==(const RecoverySettings&) const = default;
};

// Nodes that replace failed ones.
struct SpareSettings {
  std::int64_t nodes = 0;                    // that stand by
  std::optional<Seconds> replace = {};       // by one that stands by
  std::optional<Seconds> cold_replace = {};  // by a node from elsewhere, where none stands by
  std::optional<Seconds> repair = {};        // mean, after which a failed node stands by
  RepairDistribution repair_distribution = RepairDistribution::Exponential;
  double repair_sigma = 1.0;  // lognormal: standard deviation of the logarithm
  std::string source = {};
  bool operator==(const SpareSettings&) const = default;
};

struct Reliability {
  std::string title = {};
  std::string source = {};
  std::vector<FailureProcess> failures = {};
  CheckpointSettings checkpoint = {};
  RecoverySettings recovery = {};
  SpareSettings spares = {};
  FailurePolicy policy = FailurePolicy::Restart;
  bool operator==(const Reliability&) const = default;
};

}  // namespace trainyard
