// Memory of one stage over the step, category on category, as an SVG picture for a page.
//
//   std::string html = memory_legend(view.workload.categories);
//   for (const StageMemory& stage : stage_memory(view)) html += memory_chart(view, stage, most);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/report/stage_memory.hpp"

namespace trainyard {

// Bytes at which the charts of all stages end, so that they can be compared: the highest peak or
// capacity.
[[nodiscard]] std::int64_t memory_scale(const std::vector<StageMemory>& stages);

// One <svg>; `most_bytes` is the upper end of its axis. A dashed line is the GPU's capacity.
[[nodiscard]] std::string memory_chart(const RunView& view, const StageMemory& stage,
                                       std::int64_t most_bytes);

// A paragraph that says which colour is which category.
[[nodiscard]] std::string memory_legend(const std::vector<std::string>& categories);

}  // namespace trainyard
