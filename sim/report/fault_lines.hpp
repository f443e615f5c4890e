// Lines of the report on faults with dates, and on the ranks that wait because of them.
#pragma once

#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// Returns a line for each timed fault, and one on the ranks that wait longest and shortest for
// others; nothing for a run without timed faults.
[[nodiscard]] std::vector<SetupLine> fault_lines(const RunView& view);

}  // namespace trainyard
