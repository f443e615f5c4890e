// A played schedule as text: one row per rank along time, and a table of what it costs.
//
//   fmt::print("{}{}", schedule_chart(played, shape, 100), schedule_table(played, shape));
//   rank 0 |F0F1....B0==F2B1==..B2==
#pragma once

#include <cstddef>
#include <string>

#include "models/schedules/schedule.hpp"

namespace trainyard {

// Rows no wider than `width` columns (at least 40 are used), with a legend below. Each step is its
// label, filled up to its duration; where the width does not allow a label, its beginning. Dots are
// bubbles. One chunk: F0, B0 (b0 and w0 where the backward is split). Several: the chunk is the
// letter, a capital for forward (A0, B0, ...), a small one for backward (a0, b0, ...).
[[nodiscard]] std::string schedule_chart(const PlayedSchedule& played, const PipelineShape& shape,
                                         std::size_t width);

// Makespan, bubble and its share, and per rank the busy time and the activations held at most, in
// microbatches of the rank's whole share of layers.
[[nodiscard]] std::string schedule_table(const PlayedSchedule& played, const PipelineShape& shape);

}  // namespace trainyard
