// The engine: it replays a folded workload on a cluster and returns the timeline.
//
// Contract:
// - Operations start in the order that workload.hpp states (decision D2). Among operations that may
//   start at the same instant, the one with the lower (rank class, operation) starts first. No
//   result depends on chance.
// - Compute and Delay operations take the time they are given. A communication runs its phases one
//   after the other: each phase takes its latency, then moves its flows.
// - "simgrid": flows that are alive at the same time share links by max-min fairness (SimGrid, CM02
//   without its TCP corrections).
// - "ideal": each flow has its links for itself. This engine is an oracle for tests. It gives a
//   lower bound where computation and communication do not slow each other (both losses below are
//   0). Where communication slows computation, a transfer that takes longer may move to a time when
//   its rank waits anyway, and then the step with contention can be the shorter one.
// - Without contention the two engines agree to 1e-9 relative.
// - While a communication of a rank class runs, the computation of the class runs slower by the
//   communication's `compute_loss` (decision D7), because kernels share SMs. The losses of several
//   communications add up, to at most kComputeLossMost. The engine recomputes the end of a running
//   kernel at every change. In the other direction, the flows of a communication lose
//   `communication_loss` of their speed while a member computes.
// - GPUs and links with timed faults (sim/cluster/timed_faults.hpp) change their rates at the dates
//   of these. Communication takes its share of the rate that is left.
// - An operation starts no earlier than the host of its rank has issued it (host_lane.hpp).
// - The engine runs regions of operations that nothing outside can delay as one event
//   (regions.hpp). Times are the same to 1e-9 of the step, and mostly to the last bit (tick.hpp).
// - Where a pipeline of many microbatches is periodic, the engine plays some of them and repeats
//   the last period for the others (steady_state.hpp).
// - When nothing can proceed and operations remain, the engine throws a RunError that names who
//   waits for whom.
// - Several threads may run the engine at a time. Runs that need SimGrid, which is global, take
//   turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class EnginePrograms;

inline constexpr double kComputeLossMost = 0.9;

struct EngineInput {
  const Cluster& cluster;
  const Workload& workload;
  const Partition& partition;
  std::span<const double> kernel_seconds;  // indexed by Workload::kernels
  // The engine calls it now and then with the fraction of operations done. May be empty.
  std::function<void(double)> progress = {};
  // After a stop request the engine starts nothing more. It throws Cancelled when everything alive
  // has ended.
  std::stop_token stop = {};
  // By group class and call: the share of its speed that the computation of a member loses while
  // the call is alive, 0 <= loss < 1. Empty: no loss. Example: a call that holds 24 of 108 SMs has
  // 0.222.
  std::span<const std::vector<double>> compute_loss = {};
  // By group class: the share of its speed that a call loses while one of its members computes, 0
  // <= loss < 1 (the two share HBM and SMs). Empty: no loss.
  std::span<const double> communication_loss = {};
  // By program: the time that its CPU needs to issue it. Empty: all operations are issued at once.
  std::span<const HostLane> hosts = {};
  // False: no regions and no repeated periods (steady_state.hpp), so that every operation has its
  // own events.
  bool contract = true;
  // false: the timeline holds its end and its counters alone. Recording the times of operations and
  // flows takes a large share of the time of a run.
  bool record = true;
  // Results of earlier runs of the same workload; this run adds its own for later ones.
  EnginePrograms* known = nullptr;
  // The time that the busiest program takes if nothing waits, which sets the tick (tick.hpp). 0:
  // that of `workload`.
  double horizon_s = 0.0;
};
// For engines: the share of its members' computation speed that a call takes. The value is rounded
// to a multiple of 2^-40. Sums of losses are therefore exact, in whatever order calls start and
// end.
[[nodiscard]] inline double compute_loss(const EngineInput& input, std::uint32_t group_class,
                                         std::uint32_t call) {
  if (input.compute_loss.empty()) return 0.0;
  constexpr double kShift = 6144.0;  // 1.5 x 2^52 x 2^-40
  return (input.compute_loss[group_class].at(call) + kShift) - kShift;
}
class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] Timeline run(const EngineInput& input) const;

 private:
  // REQUIRES: input.known is set.
  [[nodiscard]] virtual Timeline play(const EngineInput& input) const = 0;
  // Plays a part of the microbatches and repeats their steady state; nothing where there is none.
  [[nodiscard]] std::optional<Timeline> play_steady(const EngineInput& input) const;
};

struct EngineEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Engine> (*make)();
};
// The engines "simgrid" and "ideal".
[[nodiscard]] std::span<const EngineEntry> engines();
// Returns their names, in that order.
[[nodiscard]] std::vector<std::string> engine_names();
// REQUIRES: `name` is in engines().
[[nodiscard]] std::unique_ptr<Engine> make_engine(std::string_view name);

}  // namespace trainyard
