// The still pictures of a page, as SVG elements that take the colour of the text around them.
//
// Each has a title for those who cannot see it; the tables of the page hold the same figures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

// The colour of a share of the breakdown, by its name ("exposed_tensor"); grey for unknown ones.
[[nodiscard]] std::string_view share_colour(std::string_view name);

// One bar for each stage: the shares of the step (sim/timeline/breakdown.hpp), with their legend.
[[nodiscard]] std::string breakdown_chart(const RunView& view);

// The compute stream of each stage over the step, blocks coloured by what they compute and
// numbered by microbatch where there is room.
[[nodiscard]] std::string pipeline_chart(const RunView& view);

// The same as a complete SVG document of its own, with title and legend, for READMEs and slides.
[[nodiscard]] std::string pipeline_picture(const RunView& view);

// Use of links over the step: a row for each kind and capacity, a hundred columns, the darker the
// fuller the busiest link of the kind is on average in that hundredth.
[[nodiscard]] std::string link_heat_map(const RunView& view);

// The cluster from its GPUs up to the highest switches: how many of each, and what joins them.
[[nodiscard]] std::string topology_chart(const Cluster& cluster);

// Memory of one stage over the step, category on category, as one <svg>; `most_bytes` is the upper
// end of its axis. A dashed line is the GPU's capacity.
//
//   std::string html = memory_legend(view.workload.categories);
//   for (const StageMemory& stage : stage_memory(view)) html += memory_chart(view, stage, most);
[[nodiscard]] std::string memory_chart(const RunView& view, const StageMemory& stage,
                                       std::int64_t most_bytes);

// Bytes at which the charts of all stages end, so that they can be compared: the highest peak or
// capacity.
[[nodiscard]] std::int64_t memory_scale(const std::vector<StageMemory>& stages);

// A paragraph that says which colour is which category.
[[nodiscard]] std::string memory_legend(const std::vector<std::string>& categories);

}  // namespace trainyard
