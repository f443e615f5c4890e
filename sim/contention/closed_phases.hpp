// Groups whose flows meet only each other: their phases are priced once, before the run.
//
// The two trees of an all_reduce share wires, but nobody else is on those wires at that time. All
// flows of a phase start together, so when each of them ends is settled by the phase alone: rates
// are max-min fair until the first ends, then anew for the rest. A multi-link flow that ends after
// t seconds gets payload / t as its rate cap and its loads stop being contended; it ends at the
// same moment, and nobody is there to see how its rate varied on the way.
//
// Worked: flows of 1 and 3 GB over one link of 2 GB/s: 1 GB/s each, the first ends at 1 s; then
// 2 GB/s, the second ends at 2 s: caps of 1 and 1.5 GB/s.
//
//   close_phases(cluster, joint, limits, traffic);
#pragma once

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// Prices the phases of closed groups (Concurrency::closed). REQUIRES: the caps of their flows hold
// what each could take alone.
void close_phases(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits,
                  GroupTraffic& traffic);

}  // namespace trainyard
