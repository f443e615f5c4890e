// A scenario's block "reliability" describes the weeks around a step: how often parts fail, how
// checkpoints are written, how the job recovers, which spare nodes there are. The reader of
// scenarios fills these plain values (scenarios/reader/reliability.hpp), and tools/studies/goodput
// simulates them.
//
//    const FailureProcess faulty_gpu{.events = 148, .component_days = 884'736};
//    faulty_gpu.rate_per_component_s();   // 148 events in 884 736 GPU-days: 1.94e-9 /s
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
// Degrading: a part works at a share of its rate until it recovers or is found and replaced.
// Silent: results are wrong from then on; when that is found, the work since the last checkpoint
// before it is lost.
enum class FailureKind : std::uint8_t { Fatal, Transient, Planned, Degrading, Silent };

// The part that fails. A GPU has its memory and its NVLink ports, a node its host, disks and power
// supplies. A job has one part "storage" and one part "job".
enum class FailingComponent : std::uint8_t {
  Gpu,
  Nic,
  Cable,
  Node,
  Leaf,
  Spine,
  Rack,
  Storage,
  Job
};

// How a job goes on without a failed node. Restart: it waits for another node. Elastic: it starts
// again with fewer replicas and a smaller global batch. The others go on without a restart as long
// as they can, and take the next node in while they train. Mirrored: every node has a twin that
// does the same work. Redundant: each stage holds the layers of the next one too, and computes them
// in its place (Thorpe et al. 2023, "Bamboo", NSDI). Reroute: the other replicas compute the
// microbatches of the failed stage (Gandhi et al. 2024, "ReCycle", SOSP). Backup: a step needs only
// some of the replicas (Chen et al. 2016, "Revisiting distributed synchronous SGD").
enum class FailurePolicy : std::uint8_t { Restart, Elastic, Mirrored, Redundant, Reroute, Backup };

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
  bool replaces_node = true;  // fatal, and degrading once it is found: the node goes to repair
  // Nodes side by side that one event takes. Without it: one; below a leaf or in a rack, all.
  std::optional<std::int64_t> nodes = {};
  double rate_left = 0.0;  // degrading: share of the rate of a GPU or a link that is left
  std::optional<Seconds> detect = {};    // in place of those of the recovery
  std::optional<Seconds> diagnose = {};  //
  // Mean, exponentially distributed: of a transient failure, and until a slow part recovers.
  std::optional<Seconds> duration = {};
  std::optional<Seconds> give_up = {};  // transient: a longer one stops the job
  std::string source = {};

  [[nodiscard]] double rate_per_component_s() const {
    return component_days > 0.0 ? events / (component_days * kSecondsPerDay) : 0.0;
  }
  bool operator==(const FailureProcess&) const = default;
};

// Copies of the state of training that are closer than storage: in the memory of the host, on the
// node's own disks, in the memory of other nodes. They are quicker and do not survive every
// failure.
struct NearCheckpoint {
  std::string name = {};
  // Nodes that hold each part. 1: failures of software spare it. More: losses of fewer nodes do.
  std::int64_t copies = 1;
  std::int64_t interval_steps = 1;
  std::optional<BytesPerSecond> write_rate = {};  // of each node
  std::optional<BytesPerSecond> read_rate = {};
  std::optional<Seconds> stall = {};
  std::optional<Seconds> write = {};
  std::optional<Seconds> drag = {};
  std::optional<Seconds> load = {};
  std::optional<Bytes> capacity = {};  // of each node
  std::string source = {};
  bool operator==(const NearCheckpoint&) const = default;
};

// Times that are given have precedence; bytes and rates give the others.
struct CheckpointSettings {
  std::optional<Bytes> bytes = {};  // of one checkpoint; without it, those of the memory model
  std::optional<BytesPerSecond> write_rate = {};  // of the whole job
  std::optional<BytesPerSecond> read_rate = {};
  std::optional<BytesPerSecond> node_rate = {};  // of each node that writes or reads
  bool one_replica_writes = false;               // not all of them, each a share
  std::optional<Seconds> metadata = {};          // of the file system, for each checkpoint
  std::optional<Seconds> stall = {};             // that training stops for each checkpoint
  std::optional<Seconds> write = {};             // after the stall, beside training
  std::optional<Seconds> drag = {};              // by which that write delays training
  std::optional<Seconds> load = {};
  std::optional<Seconds> interval = {};   // between checkpoints; nothing: the optimum
  std::int64_t interval_steps = 0;        // the same in steps; 0: not given
  std::int64_t kept = 0;                  // checkpoints that storage keeps; 0: all
  std::vector<NearCheckpoint> near = {};  // the quickest first
  std::string source = {};
  bool operator==(const CheckpointSettings&) const = default;
};

// Phases from a failure until training goes on, in the order of time. Nothing: no time. Loading is
// part of the checkpoint, replacement of the spares.
struct RecoverySettings {
  std::optional<Seconds> detect = {};
  std::optional<Seconds> diagnose = {};
  std::optional<Seconds> queue = {};  // mean wait for the scheduler, exponentially distributed
  std::optional<Seconds> start = {};
  std::optional<Seconds> communicator_init = {};
  std::optional<Seconds> warm_up = {};
  // By policies that go on without a node: until the others do, and to take one in.
  std::optional<Seconds> reconfigure = {};
  // Probability that the diagnosis takes another node out. The job then fails again as soon as it
  // has restarted.
  double misdiagnosis = 0.0;
  // `start` and `communicator_init` are those of so many GPUs (0: of every job), and grow by these
  // times with each doubling.
  std::int64_t gpus = 0;
  std::optional<Seconds> start_per_doubling = {};
  std::optional<Seconds> communicator_init_per_doubling = {};
  std::string source = {};
  bool operator==(const RecoverySettings&) const = default;
};

// Nodes that replace failed ones.
struct SpareSettings {
  std::int64_t nodes = 0;                    // that stand by
  std::optional<Seconds> replace = {};       // by one that stands by
  std::optional<Seconds> cold_replace = {};  // by a node from elsewhere, where none stands by
  std::int64_t cold_nodes = 0;               // elsewhere; 0: no limit
  std::optional<Seconds> repair = {};        // mean, after which a failed node stands by
  RepairDistribution repair_distribution = RepairDistribution::Exponential;
  double repair_sigma = 1.0;  // lognormal: standard deviation of the logarithm
  // A share of the nodes needs a second repair, by hand, whose times have the same distribution.
  double manual_share = 0.0;
  std::optional<Seconds> manual_repair = {};  // mean
  std::string source = {};
  bool operator==(const SpareSettings&) const = default;
};

// Nodes that fail more often than the others (Kokolis et al. 2024, "lemon nodes"). The rates of the
// failures are means over all nodes.
struct LemonSettings {
  double share = 0.0;            // of the nodes
  double multiple = 1.0;         // of the rate of another node
  std::int64_t evict_after = 0;  // failures after which a sound node takes its place; 0: never
  double cured = 0.0;            // probability that a repair makes it sound
  std::string source = {};
  bool operator==(const LemonSettings&) const = default;
};

// A pause that is no failure. Exactly one of the three intervals is given.
struct PauseSettings {
  std::string cause = {};
  std::int64_t every_steps = 0;       // the job stays: evaluation, a generation of samples
  std::optional<Seconds> every = {};  // on the calendar; the job stops: maintenance
  std::optional<Seconds> limit = {};  // after its start, the job stops: its time limit
  std::optional<Seconds> duration = {};
  std::string source = {};
  bool operator==(const PauseSettings&) const = default;
};

// Checks for slow parts and wrong results, at regular intervals of training.
struct HealthCheckSettings {
  std::optional<Seconds> every = {};
  std::optional<Seconds> duration = {};
  double coverage = 1.0;  // probability that one check finds a part that is slow or wrong
  std::string source = {};
  bool operator==(const HealthCheckSettings&) const = default;
};

// A part of the run with another batch or sequence length, such as a ramp of the batch. Before the
// first phase, the run trains as the scenario says.
struct PhaseSettings {
  double from_tokens = 0.0;            // trained before it begins
  std::int64_t global_batch_size = 0;  // 0: that of the scenario
  std::int64_t sequence_length = 0;    // 0: that of the scenario
  std::int64_t interval_steps = 0;     // between checkpoints in storage; 0: as the whole run
  std::string source = {};
  bool operator==(const PhaseSettings&) const = default;
};

struct Reliability {
  std::string title = {};
  std::string source = {};
  std::vector<FailureProcess> failures = {};
  double rate_factor = 1.0;  // on the rates of all failures
  LemonSettings lemons = {};
  CheckpointSettings checkpoint = {};
  RecoverySettings recovery = {};
  SpareSettings spares = {};
  std::vector<PauseSettings> pauses = {};
  std::vector<PhaseSettings> phases = {};  // in the order of time
  std::optional<HealthCheckSettings> health_check = {};
  FailurePolicy policy = FailurePolicy::Restart;
  std::int64_t backup_replicas = 0;  // policy backup: replicas that a step does not need
  std::int64_t nodes_per_rack = 0;   // 0: not given
  bool operator==(const Reliability&) const = default;
};

}  // namespace trainyard
