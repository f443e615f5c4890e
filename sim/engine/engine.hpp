// The engine: replays a folded workload on a cluster and returns the timeline.
//
// Contract.
//  - Operations start in the order design D2 and workload.hpp state; among those that may start at
//  the
//    same instant, the lower (rank class, operation) goes first. Nothing is left to chance.
//  - Compute and Delay take their given time. A communication takes its phases: latency, then
//  flows.
//  - "simgrid": flows alive together share links by max-min fairness (SimGrid, CM02 without its TCP
//    corrections). "ideal": each flow has its links for itself: an oracle, and a
//    lower bound where nothing is lost between computation and communication (both losses below
//    are 0). Where communication slows computation, a transfer that takes longer may fall where
//    its rank waits anyway, so that a step with contention is the shorter one now and then.
//  - Without contention the two agree to 1e-9 relative.
//  - While a communication of a class runs, its computation runs slower by the communication's
//    `compute_loss` (design D7): kernels share SMs. Losses of several add up, to at most
//    kComputeLossMost; the rest of a running kernel is priced anew at every change. The other way
//    round, a communication's flows can move `communication_loss` less while a member computes.
//  - An operation starts no earlier than its rank's host has issued it (host_lane.hpp).
//  - Regions of operations that nothing outside can hold up are run as one event (regions.hpp):
//    times are the same to 1e-9 of the step, and mostly to the last bit (tick.hpp).
//  - When nothing can proceed and operations remain, RunError names who waits for whom.
//  - Several threads may run at a time; those that need SimGrid, which is global, take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
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
  std::span<const double> kernel_seconds;  // by index into Workload::kernels
  // Called now and then with the fraction of operations done; may be empty.
  std::function<void(double)> progress = {};
  // A stop starts nothing more, and ends the run by Cancelled when what is alive has ended.
  std::stop_token stop = {};
  // By group class and call: the share of its speed that a member's computation loses while the
  // call is alive, 0 <= loss < 1. Empty: none. 24 of 108 SMs held: 0.222.
  std::span<const std::vector<double>> compute_loss = {};
  // By group class: the share of its speed that a call loses while one of its members computes,
  // 0 <= loss < 1 (HBM and SMs are shared). Empty: none.
  std::span<const double> communication_loss = {};
  // By program: what its CPU needs to issue it. Empty: nothing, everything is issued at once.
  std::span<const HostLane> hosts = {};
  bool contract = true;  // false: every operation has events of its own
  // false: the timeline holds its end and its counters alone. Times of operations and flows take as
  // long as much of a run.
  bool record = true;
  EnginePrograms* known = nullptr;  // from runs of the same workload before, and for those to come
};
// For engines: what a call takes of its members' computation, rounded to 2^-40 so that losses add
// up exactly, in whatever order calls come and go.
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
};

struct EngineEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Engine> (*make)();
};
// "simgrid", "ideal".
[[nodiscard]] std::span<const EngineEntry> engines();
// REQUIRES: `name` is in engines().
[[nodiscard]] std::unique_ptr<Engine> make_engine(std::string_view name);

}  // namespace trainyard
