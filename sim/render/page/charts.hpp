// The static charts of a run for pages: SVG elements in the colour of the surrounding text.
//
// Each chart has a title for readers who cannot see it; the tables of the page hold the same
// figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/render/page/plots.hpp"
#include "sim/report/run_view.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

// A share of the breakdown by its name ("exposed_tensor") as a part of a bar: its title and colour,
// and as text its share of the step or, where `step_s` is 0, its time. An unknown name is grey.
[[nodiscard]] BarPart share_part(std::string_view name, double seconds, double step_s);

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
// between the tiers, which a table lists.
[[nodiscard]] std::string topology_chart(const Cluster& cluster);

// The peak memory of each stage by category: one bar per stage, up to the largest capacity.
[[nodiscard]] std::string memory_parts_chart(const RunView& view,
                                             const std::vector<StageMemory>& stages);

// The memory of stages[number] over the step, stacked by category. All stages have one scale, which
// goes up to the highest peak or capacity. A dashed line shows the GPU's capacity.
//
//    const std::vector<StageMemory> stages = stage_memory(view);
//    std::string html = memory_keys(view.workload.categories) + memory_chart(view, stages, 0);
[[nodiscard]] std::string memory_chart(const RunView& view, const std::vector<StageMemory>& stages,
                                       std::size_t number);

// Maps the colours of memory charts to categories.
[[nodiscard]] std::string memory_keys(const std::vector<std::string>& categories);
// The colour of a category in these charts.
[[nodiscard]] std::string_view memory_colour(std::size_t category);

}  // namespace trainyard
