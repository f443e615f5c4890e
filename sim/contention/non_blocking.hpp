// Links that can never hold a flow back, whatever is alive: the tiers of a non-blocking fabric.
//
// Let l be a link and K a set of links below it (those that feed a switch's uplink from underneath,
// or that drain what comes down to it). If every chain c that crosses l loads it with
//
//     w_cl <= r * sum over k in K of w_ck          r = max over chains of w_cl / sum of w_ck
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
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/joint_graph.hpp"

namespace trainyard {

// Only links between switches of different tiers are ever non-blocking; all others keep their say.
[[nodiscard]] std::vector<bool> non_blocking_links(const Cluster& cluster, const JointGraph& joint);

}  // namespace trainyard
