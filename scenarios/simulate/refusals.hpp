// Reports failures of a simulation at the field of the scenario that causes them.
//
// Only the communication model finds out whether "nvls" can run on the GPUs of a group, and only
// the run finds out whether the messages of a schedule block each other. Neither knows the file and
// the field, which this module adds:
//
//    scenarios/mine.json: /collectives/data/all_reduce: all_reduce of 8 ranks on GPUs 0, 2, ...,
//    14 cannot use "nvls": nvls runs within one node, here are 2 (choose one of: ring, tree, ...)
//
//    scenarios/mine.json: /parallelism/overlap_p2p: zb_auto cannot go on where false lets
//    messages hold up their stage: stage 0 (rank 0): recv ... waits for stage 1 ... (set
//    overlap_p2p to true)
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/engine/deadlock.hpp"

namespace trainyard {

// Throws InputError at the field that chose the algorithm, which the refused call contains; does
// nothing where no field chose it.
void name_refused_choice(const Scenario& scenario, const RefusedCall& refused);

// Throws InputError where blocking messages between the scenario's stages cause the deadlock.
// Zero-bubble schedules run several forwards before a neighbour's reply. If each send blocks its
// stage until the receive, two stages may wait for each other. Does nothing otherwise.
void refuse_blocked_sends(const Scenario& scenario, const Deadlock& deadlock);

}  // namespace trainyard
