// Link use over time, as counters of a Chrome trace: what one link of a class carries, in GB/s.
#pragma once

#include <cstddef>

#include "sim/report/run_view.hpp"
#include "sim/report/trace_events.hpp"

namespace trainyard {

// One counter per link class, for the `classes` that carry most. A transfer counts with its mean
// rate.
void write_link_counters(const RunView& view, std::size_t classes, TraceEvents& events);

}  // namespace trainyard
