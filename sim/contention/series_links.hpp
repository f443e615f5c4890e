// Links in series of which one implies the others.
//
// Where every shape of chain loads links k and l alike, their constraints differ in the capacity
// alone: sum of w_c x_c <= C_k and sum of w_c x_c <= C_l. The larger one follows from the smaller,
// so taking it away leaves the set of possible rates, and with it the max-min fair one, as it is. A
// message that leaves a server crosses GPU to PCIe switch, switch to NIC and NIC to leaf: three
// links that all chains load alike, of which the port of the NIC (48.5 GB/s beside 55) says it all.
//
//   std::vector<LinkId> implied_by = series_links(cluster, joint, users, redundant);
//   implied_by[link] != link;   // another says as much
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// By link, the one that implies it: of links loaded alike that follow one another, through devices
// at which no way ends, that with the least capacity; itself where no other follows. Others loaded
// alike keep their say: where they are so by chance, as the ports of two nodes that only talk to
// each other, leaving one out would tell the two apart. Links that are `redundant` (by link) take
// no part: none of them implies another.
[[nodiscard]] std::vector<LinkId> series_links(const Cluster& cluster, const JointGraph& joint,
                                               const LinkUsers& users,
                                               const std::vector<bool>& redundant);

}  // namespace trainyard
