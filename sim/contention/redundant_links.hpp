// Links whose constraints follow from those of other links, so that they hold back no flow by
// themselves.
#pragma once

#include <cstddef>
#include <cstdint>
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
//    w_cl <= r * sum over k in K of w_ck          r = max over flows of w_cl / sum of w_ck
//
// then for all rates x at all times
//
//    sum of w_cl x_c <= r * sum over K of (sum of w_ck x_c) <= r * sum of C_k
//
// Where r * sum of C_k <= C_l, the constraint of l follows from those of K. Removing l does not
// change the set of possible rates, nor the max-min fair one. Links are decided from the lowest
// tier upwards, each by links already decided, so that no two depend on each other. A link that is
// itself non-blocking passes on its own bound in place of its capacity.
//
// Worked: a leaf of 32 NICs of 48.5 GB/s and 32 uplinks of 48.5 GB/s, even spreading: r = 1/32,
// 1/32 * 32 * 48.5 = 48.5 <= 48.5: non-blocking. Oversubscribed 2:1, 16 uplinks: 97 > 48.5: it may
// bind.
//
//    const TierTraffic tiers = tier_traffic(cluster, joint);
//    std::vector<bool> non_blocking = non_blocking_links(cluster, tiers);   // by link
//
// Only links between switches of different tiers can be non-blocking; all others stay.

// The links between tiers that flows use, and r of those that may be non-blocking. A sum over the
// links below a switch, in one direction, has a number.
struct TierTraffic {
  struct TierLink {
    LinkId link = 0;
    std::uint32_t over = 0;  // the sum below its upper switch, which it adds to
  };
  struct Candidate {
    LinkId link = 0;
    std::uint32_t tier = 0;   // tier of its lower endpoint
    std::uint32_t below = 0;  // the sum below its lower endpoint
    std::uint32_t over = 0;   // the sum below its upper switch
    double ratio = 0.0;       // r
  };
  std::vector<TierLink> links = {};        // ascending
  std::vector<Candidate> candidates = {};  // ascending
  std::uint32_t switches = 0;              // number of sums
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const TierTraffic& tiers);

// It reads no rates.
[[nodiscard]] TierTraffic tier_traffic(const Cluster& cluster, const JointGraph& joint);

[[nodiscard]] std::vector<bool> non_blocking_links(const Cluster& cluster,
                                                   const TierTraffic& tiers);

// Links in series of which one implies the others.
//
// Where every shape of flow loads links k and l equally, their constraints differ in the capacity
// alone: sum of w_c x_c <= C_k and sum of w_c x_c <= C_l. The larger one follows from the smaller.
// Removing it does not change the set of possible rates, nor the max-min fair one. A message that
// leaves a server crosses GPU to PCIe switch, switch to NIC and NIC to leaf: three links that all
// flows load equally. The port of the NIC (48.5 GB/s compared with 55) implies the other two.
//
//    const SeriesNeighbours series = series_neighbours(cluster, joint, users);
//    std::vector<LinkId> implied_by = implied_links(cluster, series, redundant);
//    implied_by[link] != link;   // another link implies it

// Two links in succession, through a device at which no route ends, that all flows load equally.
struct SeriesNeighbour {
  LinkId link = 0;
  LinkId next = 0;
};
using SeriesNeighbours = std::vector<SeriesNeighbour>;
// Estimates their size in bytes.
[[nodiscard]] std::size_t footprint(const SeriesNeighbours& neighbours);

// Finds all pairs of neighbours. It reads no rates.
[[nodiscard]] SeriesNeighbours series_neighbours(const Cluster& cluster, const JointGraph& joint,
                                                 const LinkUsers& users);

// By link: the link that implies it, or itself. Of a series of neighbours it is the one with the
// least capacity. Other links that are loaded equally stay: their loads may be equal by chance, as
// for the ports of two nodes that only communicate with each other, and removing one would break
// the symmetry between the two. Links that are `redundant` (by link) take no part: none of them
// implies another.
[[nodiscard]] std::vector<LinkId> implied_links(const Cluster& cluster,
                                                const SeriesNeighbours& neighbours,
                                                const std::vector<bool>& redundant);

}  // namespace trainyard
