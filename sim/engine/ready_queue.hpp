// The ready queue: it runs the programs of all rank classes in the order that their edges allow.
//
// It stores a counter per class and operation of what the operation still waits for. When the
// counter falls to zero the operation is ready. Ready operations start in the order (time, rank
// class, operation), so no result depends on chance. A communication then waits for the other
// participants of its call (rendezvous.hpp) and runs its phases: latency, then flows. The Pricing
// decides how long work takes.
//
//    Timeline timeline = replay(input, pricing);   // every engine does this, with its own Pricing
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/engine/pricing.hpp"

namespace trainyard {

// Returns the times of every operation. REQUIRES: input.known is set. Throws RunError, naming who
// waits for whom, when operations remain that can never start.
[[nodiscard]] Timeline replay(const EngineInput& input, Pricing& pricing);

}  // namespace trainyard
