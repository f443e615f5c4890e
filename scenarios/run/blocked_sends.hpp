// Where a step cannot go on because its messages between stages block.
//
// Zero-bubble schedules put several forwards ahead of what a neighbour sends back; where a stage
// holds still until each message is taken, two of them may wait for each other. For some schedules
// that depends on how long their steps take, so only the run finds out, and it knows neither file
// nor path:
//
//   scenarios/mine.json: /parallelism/overlap_p2p: zb_auto cannot go on where false lets messages
//   hold up their stage: stage 0 (rank 0): recv ... waits for stage 1 ... (set overlap_p2p to true)
#pragma once

#include "scenarios/scenario.hpp"
#include "sim/engine/deadlock.hpp"

namespace trainyard {

// Throws InputError with the deadlock's first line if the scenario's messages block; does nothing
// otherwise.
void refuse_blocked_sends(const Scenario& scenario, const Deadlock& deadlock);

}  // namespace trainyard
