// Puts the flows of a timeline in order of start.
//
// Flows start all over the step: they are dealt into equal slices of it, a few to a slice, and each
// slice is put in order by itself.
//
//   timeline.flows = in_order_of_start(std::move(timeline.flows));
#pragma once

#include <vector>

#include "sim/timeline/timeline.hpp"

namespace trainyard {

// By start, then flow class, then end.
[[nodiscard]] std::vector<FlowSpan> in_order_of_start(std::vector<FlowSpan> flows);

}  // namespace trainyard
