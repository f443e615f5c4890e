// Where a scenario chose an algorithm that a group of its ranks cannot run, or left NCCL none to
// choose.
//
// Whether "nvls" or "halving_doubling" can run is a question of where a group stands, which only
// the transport finds out, and it knows neither file nor path. Asked after it refused, this says
// both:
//
//   scenarios/mine.json: /collectives/data/all_reduce: all_reduce of 8 ranks on GPUs 0, 2, ..., 14
//   cannot use "nvls": nvls runs within one node, here are 2 (choose one of: ring, tree, ...)
#pragma once

#include "scenarios/scenario.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

// Throws InputError for the first call of the step whose chosen algorithm refuses its group, or for
// which NCCL has none left; does nothing where there is no such call.
void check_chosen_algorithms(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
