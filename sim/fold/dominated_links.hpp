// Links that hold back nothing that another link does not hold back as much.
//
// Where every shape of chain loads links k and l alike, their constraints differ in the capacity
// alone: sum of w_c x_c <= C_k and sum of w_c x_c <= C_l. The larger one follows from the smaller,
// so taking it away leaves the set of possible rates, and with it the max-min fair one, as it is. A
// message that leaves a server crosses GPU to PCIe switch, switch to NIC and NIC to leaf: three
// links that all chains load alike, of which the port of the NIC (48.5 GB/s beside 55) says it all.
//
//   std::vector<LinkId> stands = dominating_links(cluster, joint, crossings, slack);
//   stands[link] != link;   // dominated
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/joint_graph.hpp"
#include "sim/fold/link_crossings.hpp"

namespace trainyard {

// By link, the one that stands for it: of links loaded alike that follow one another, through
// devices at which no way ends, that with the least capacity; itself where there is no such row.
// Others loaded alike keep their say: where they are so by chance, as the ports of two nodes that
// only talk to each other, leaving one out would tell the two apart. Links that are `slack` (by
// link; slack_links.hpp) take no part: none of them dominates another.
[[nodiscard]] std::vector<LinkId> dominating_links(const Cluster& cluster, const JointGraph& joint,
                                                   const LinkCrossings& crossings,
                                                   const std::vector<bool>& slack);

}  // namespace trainyard
