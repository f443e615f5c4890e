// Puts the flows of a timeline in order of start.
//
// Those of one group class mostly come in that order already: each class's are put in order by
// themselves, and the classes merged.
//
//   timeline.flows = in_order_of_start(partition, std::move(timeline.flows));
#pragma once

#include <vector>

#include "sim/graph/fold.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// By start, then flow class, then end.
[[nodiscard]] std::vector<FlowSpan> in_order_of_start(const Partition& partition,
                                                      std::vector<FlowSpan> flows);

}  // namespace trainyard
