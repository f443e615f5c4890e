// The engine with contention: SimGrid prices the flows that are alive (decisions D3 and D4).
//
// Delays and latencies are timers. Flows that start together and share links only with each other
// are timers too, until another flow comes (flow_components.hpp): in the dispatch/combine of
// experts on 2 048 GPUs that happens to one flow in twenty. Every other flow is one Comm between
// two virtual hosts over a route that lists its links. There are no actors, no dependencies inside
// SimGrid, no latency on links, and one activity per live flow.
//
// SimGrid's clock belongs to the process and never goes back. A second run in the same process
// starts where the first ended and subtracts that date. Its dates are exact to 1e-16 of the time
// simulated before; timers stay exact to the last bit. Only one run uses SimGrid at a time.
#pragma once

#include <memory>

#include "sim/engine/engine.hpp"

namespace trainyard {

struct SimgridOptions {
  // False: flows that start together are Comms from the start. A check: times agree to 1e-9.
  bool components = true;
};

[[nodiscard]] std::unique_ptr<Engine> make_simgrid_engine(const SimgridOptions& options);

}  // namespace trainyard
