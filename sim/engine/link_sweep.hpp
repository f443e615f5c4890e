// Use of links that no engine watched, because their loads are uncontended (fold.hpp).
//
// Sweeps over the transfers of a finished run in the order of time. A transfer counts at its mean
// rate over its life, which is its rate wherever nothing shared its links; a peak made of transfers
// whose rates changed while they ran is therefore a peak of means. Busy time is exact.
//
//   timeline.links = with_uncontended(cluster, partition, timeline.flows, timeline.links);
#pragma once

#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// `use`, with busy time and peak of every link class that carries an uncontended load. REQUIRES:
// flows are in order of start.
[[nodiscard]] std::vector<LinkUse> with_uncontended(const Cluster& cluster,
                                                    const Partition& partition,
                                                    std::span<const FlowSpan> flows,
                                                    std::vector<LinkUse> use);

}  // namespace trainyard
