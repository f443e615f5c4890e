// Prices closed groups before the run: groups whose flows share links only with flows of their own
// phase.
//
// Example: the two trees of an all_reduce share links, but no other flow is on those links at that
// time. All flows of a phase start together, so the phase alone determines when each of them ends:
// rates are max-min fair until the first flow ends, then they are shared again among the rest. A
// multi-link flow that ends after t seconds gets payload / t as its rate cap, and its loads stop
// being contended. It ends at the same moment as before. No other flow is affected by how its rate
// varied before that.
//
// Worked: flows of 1 and 3 GB over one link of 2 GB/s: 1 GB/s each, the first ends at 1 s; then 2
// GB/s, the second ends at 2 s: caps of 1 and 1.5 GB/s.
//
//    close_phases(cluster, joint, limits, traffic);
#pragma once

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// Prices the phases of closed groups (Concurrency::closed). REQUIRES: the caps of their flows are
// what each flow could take alone.
void close_phases(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits,
                  GroupTraffic& traffic);

}  // namespace trainyard
