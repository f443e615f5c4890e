// Which loads of the joint graph can ever matter to another flow.
//
// A chain on a link is *contended* when another chain may be alive on that link at the same time
// and the link may fill. It is not when
//   - the link is slack: it never holds anything back (slack_links.hpp), or nothing that another
//     link does not (dominated_links.hpp); or
//   - every other chain on the link belongs to a call that surely runs at another time: a rank that
//     is a member of both groups makes the two calls one after the other, by the order of its
//     streams and dependencies (apartness.hpp).
// A chain that is uncontended on a link which may fill is alone there: the link is a cap on the
// chain's own rate and nothing else. So only contended loads join the fates of chains, and only
// they need to take part in the refinement and in the solver. Nothing here depends on durations.
//
//   Contention contention = find_contention(cluster, workload, joint, order);
//   for (const LinkCrossings::Crossing& crossing : contention.crossings.of(link))
//     if (crossing.contended) ...;
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/joint_graph.hpp"
#include "sim/fold/link_crossings.hpp"
#include "sim/workload/call_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Contention {
  LinkCrossings crossings;  // by link, which of them are contended
  // By shape, of its most loaded link in bytes/s: what its uncontended links allow; infinity: all.
  std::vector<double> rate_alone;
  std::vector<bool> meets;  // by shape: whether any of its loads is contended
  // By shape: whether a chain meets any but chains of its own phase.
  std::vector<bool> meets_others;
  std::vector<bool> slack;  // by link
  // By link, the one loaded alike that stands for it (dominated_links.hpp), or itself.
  std::vector<LinkId> stands;
};

// `order`: of the workload's programs.
[[nodiscard]] Contention find_contention(const Cluster& cluster, const Workload& workload,
                                         const JointGraph& joint, CallOrder& order);

// Every load counts as contended: the plain joint graph.
[[nodiscard]] Contention all_contended(const Cluster& cluster, const JointGraph& joint);

}  // namespace trainyard
