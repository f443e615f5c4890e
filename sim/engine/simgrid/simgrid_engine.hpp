// The engine with contention: SimGrid prices what is alive (design D3, D4).
//
// Delays and latencies are timers. So are flows that start together and meet nobody but each other,
// until somebody else comes (flow_components.hpp): of an exchange of experts on 2 048 GPUs one flow
// in twenty is met. Every other flow is one Comm between two virtual hosts over a route that lists
// its links. No actors, no dependencies inside SimGrid, no latency on links, one activity per live
// flow.
//
// SimGrid's clock belongs to the process and never goes back. A second run in the same process
// starts where the first ended and subtracts that date, so it is exact to 1e-16 of the time
// simulated before; timers stay exact to the last bit. One run at a time.
#pragma once

#include <memory>

#include "sim/engine/engine.hpp"

namespace trainyard {

struct SimgridOptions {
  // False: flows that start together are Comms from the start (a check: times agree to 1e-9).
  bool components = true;
};

[[nodiscard]] std::unique_ptr<Engine> make_simgrid_engine(const SimgridOptions& options);

}  // namespace trainyard
