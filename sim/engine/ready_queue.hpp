// The ready queue: runs the programs of all rank classes in the order their edges allow.
//
// It keeps, per class and operation, a count of what the operation still waits for. When it falls
// to zero the operation is ready; ready operations start in the order (time, rank class,
// operation), so nothing is left to chance. A communication then waits for the other participants
// of its call (rendezvous.hpp) and moves its phases: latency, then flows. How long work takes is
// the Pricing's affair.
//
//   IdealPricing pricing(input.cluster, input.partition);
//   Timeline timeline = replay(input, pricing);
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/engine/pricing.hpp"

namespace trainyard {

// The times of every operation. REQUIRES: input.known is set. Throws RunError, naming
// who waits for whom, when operations remain that can never start.
[[nodiscard]] Timeline replay(const EngineInput& input, Pricing& pricing);

}  // namespace trainyard
