// The still pictures of a page, as SVG elements that take the colour of the text around them.
//
// Each has a title for those who cannot see it; the tables of the page hold the same figures.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/run_view.hpp"

namespace trainyard {

// What a share of the breakdown, by its name ("exposed_tensor"), is coloured; grey for unknown
// ones.
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

}  // namespace trainyard
