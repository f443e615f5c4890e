// Zero-bubble schedules planned with times (Qi et al. 2401.10241, section 3): every rank in turn
// takes the forward or backward whose input is there, fills its waits with weight gradients, and
// runs those first when its memory is full.
//
//   zero_bubble_lists({.stages = 4, .microbatches = 8, .activation_limit = 4}, durations);
#pragma once

#include "models/schedules/schedule.hpp"

namespace trainyard {

// Several rules of choice are tried and the shortest result kept (then the one with the least
// waiting). A rank never holds more than `shape.activation_limit` chunk activations, from their
// forward to their weight gradient. Durations as for play_schedule.
// REQUIRES: shape.activation_limit >= shape.chunks.
[[nodiscard]] ScheduleLists zero_bubble_lists(const PipelineShape& shape,
                                              const StepDurations& durations);

// The shape's costs, the same on every rank, as play_schedule takes them.
[[nodiscard]] StepDurations durations_of(const PipelineShape& shape);

}  // namespace trainyard
