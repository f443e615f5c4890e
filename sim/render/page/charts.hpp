// The static charts of a report page, as SVG elements in the colour of the surrounding text.
//
// Each chart has a title for readers who cannot see it; the tables of the page hold the same
// figures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

// Returns the colour of a share of the breakdown by its name ("exposed_tensor"); grey for an
// unknown name.
[[nodiscard]] std::string_view share_colour(std::string_view name);

// One bar per stage: the shares of the step (sim/timeline/breakdown.hpp), with a legend.
[[nodiscard]] std::string breakdown_chart(const RunView& view);

// The compute stream of each stage over the step. Colours show what a bar computes; bars have the
// number of their microbatch where there is room.
[[nodiscard]] std::string pipeline_chart(const RunView& view);

// The same chart as a complete SVG document with title and legend, for READMEs and slides.
[[nodiscard]] std::string pipeline_picture(const RunView& view);

// The use of links over the step: a row per kind and capacity, and a hundred columns. The colour of
// a column shows the mean use of the busiest link of the kind in that hundredth.
[[nodiscard]] std::string link_heat_map(const RunView& view);

// The cluster from its GPUs up to the highest switches: the number of each device, and the links
// between the tiers.
[[nodiscard]] std::string topology_chart(const Cluster& cluster);

// The memory of one stage over the step, stacked by category, as one <svg>. `most_bytes` is the
// upper limit of the axis. A dashed line shows the GPU's capacity.
//
//    std::string html = memory_legend(view.workload.categories);
//    for (const StageMemory& stage : stage_memory(view)) html += memory_chart(view, stage, most);
[[nodiscard]] std::string memory_chart(const RunView& view, const StageMemory& stage,
                                       std::int64_t most_bytes);

// Returns the upper limit of the axis for the charts of all stages, so that they are comparable:
// the highest peak or capacity, in bytes.
[[nodiscard]] std::int64_t memory_scale(const std::vector<StageMemory>& stages);

// Returns a paragraph that maps colours to categories.
[[nodiscard]] std::string memory_legend(const std::vector<std::string>& categories);

}  // namespace trainyard
