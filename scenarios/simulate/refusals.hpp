// Where in a scenario the cause lies of what stopped its simulation.
//
// Whether "nvls" can run is a question of where a group stands, which only the communication model
// finds out; whether a schedule's messages hold each other up, only the run. Neither knows file and
// path:
//
//   scenarios/mine.json: /collectives/data/all_reduce: all_reduce of 8 ranks on GPUs 0, 2, ..., 14
//   cannot use "nvls": nvls runs within one node, here are 2 (choose one of: ring, tree, ...)
//   scenarios/mine.json: /parallelism/overlap_p2p: zb_auto cannot go on where false lets messages
//   hold up their stage: stage 0 (rank 0): recv ... waits for stage 1 ... (set overlap_p2p to true)
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/engine/deadlock.hpp"

namespace trainyard {

// Throws InputError at the field that chose the algorithm, as the call carries it; does nothing
// where no field did.
void name_refused_choice(const Scenario& scenario, const RefusedCall& refused);

// Throws InputError where the messages between the scenario's stages block: zero-bubble schedules
// put several forwards ahead of what a neighbour sends back, and where a stage holds still until
// each message is taken, two of them may wait for each other. Does nothing otherwise.
void refuse_blocked_sends(const Scenario& scenario, const Deadlock& deadlock);

}  // namespace trainyard
