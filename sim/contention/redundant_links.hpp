// Links whose constraints follow from those of other links, and so hold no flow back by themselves.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// Links that can never hold a flow back, whatever is alive: the tiers of a non-blocking fabric.
//
// Let l be a link and K a set of links below it (those that feed a switch's uplink from underneath,
// or that drain what comes down to it). If every flow c that crosses l loads it with
//
//     w_cl <= r * sum over k in K of w_ck          r = max over flows of w_cl / sum of w_ck
//
// then for all rates x at all times: sum of w_cl x_c <= r * sum over K of (sum of w_ck x_c)
// <= r * sum of C_k. Where r * sum of C_k <= C_l, the constraint of l follows from those of K, so
// taking l away leaves the set of possible rates, and with it the max-min fair one, as it is.
// Links are decided from the lowest tier upwards, each by links already decided, so no two lean on
// each other; a link that is itself non-blocking hands on its own bound in place of its capacity.
//
// Worked: a leaf of 32 NICs of 48.5 GB/s and 32 uplinks of 48.5 GB/s, even spreading: r = 1/32,
// 1/32 * 32 * 48.5 = 48.5 <= 48.5: non-blocking. Oversubscribed 2:1, 16 uplinks: 97 > 48.5: it may
// bind.
//
//   std::vector<bool> non_blocking = non_blocking_links(cluster, joint);   // by link
// Only links between switches of different tiers are ever non-blocking; all others keep their say.
[[nodiscard]] std::vector<bool> non_blocking_links(const Cluster& cluster, const JointGraph& joint);

// Links in series of which one implies the others.
//
// Where every shape of flow loads links k and l alike, their constraints differ in the capacity
// alone: sum of w_c x_c <= C_k and sum of w_c x_c <= C_l. The larger one follows from the smaller,
// so taking it away leaves the set of possible rates, and with it the max-min fair one, as it is. A
// message that leaves a server crosses GPU to PCIe switch, switch to NIC and NIC to leaf: three
// links that all flows load alike, of which the port of the NIC (48.5 GB/s beside 55) says it all.
//
//   const SeriesNeighbours series = series_neighbours(cluster, joint, users);
//   std::vector<LinkId> implied_by = implied_links(cluster, series, redundant);
//   implied_by[link] != link;   // another says as much

// Two links of which one follows the other, through a device at which no way ends, and which all
// flows load alike.
struct SeriesNeighbour {
  LinkId link = 0;
  LinkId next = 0;
};
using SeriesNeighbours = std::vector<SeriesNeighbour>;
// Estimates the bytes they take.
[[nodiscard]] std::size_t footprint(const SeriesNeighbours& neighbours);

// Reads no rates.
[[nodiscard]] SeriesNeighbours series_neighbours(const Cluster& cluster, const JointGraph& joint,
                                                 const LinkUsers& users);

// By link, the one that implies it: of neighbours of neighbours that with the least capacity;
// itself where there is none. Others loaded alike keep their say: where they are so by chance, as
// the ports of two nodes that only talk to each other, leaving one out would tell the two apart.
// Links that are `redundant` (by link) take no part: none of them implies another.
[[nodiscard]] std::vector<LinkId> implied_links(const Cluster& cluster,
                                                const SeriesNeighbours& neighbours,
                                                const std::vector<bool>& redundant);

}  // namespace trainyard
