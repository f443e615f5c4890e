// A played pipeline schedule as a picture: one row for each rank, one box for each step.
//
//   write_file("1f1b.svg", schedule_svg(played, shape, "1f1b"));
#pragma once

#include <string>

#include "models/schedules/schedule.hpp"

namespace trainyard {

// A complete SVG document. Forwards are light and backwards dark, in a colour for each chunk; the
// number of the microbatch stands in a box that has room for it.
[[nodiscard]] std::string schedule_svg(const PlayedSchedule& played, const PipelineShape& shape,
                                       const std::string& title);

}  // namespace trainyard
