// The schedules of this folder, for the registry. A new schedule adds its declaration here, its row
// in schedule.cpp, its file and a line in CMakeLists.txt; tests of the planner alone include this
// header as well.
#pragma once

#include <optional>
#include <string>

#include "models/schedules/schedule.hpp"

namespace trainyard {

[[nodiscard]] const Schedule& naive_schedule();
[[nodiscard]] const Schedule& gpipe_schedule();
[[nodiscard]] const Schedule& one_f_one_b_schedule();
[[nodiscard]] const Schedule& interleaved_1f1b_schedule();
[[nodiscard]] const Schedule& zb_h1_schedule();
[[nodiscard]] const Schedule& zb_h2_schedule();
[[nodiscard]] const Schedule& zb_v_schedule();
[[nodiscard]] const Schedule& zb_auto_schedule();
[[nodiscard]] const Schedule& v_half_schedule();
[[nodiscard]] const Schedule& v_min_schedule();
[[nodiscard]] const Schedule& dualpipe_schedule();
[[nodiscard]] const Schedule& dualpipe_v_schedule();

// The refusal of a shape that no schedule has: a count below 1.
[[nodiscard]] std::optional<std::string> refuse_counts(const PipelineShape& shape);

// refuse_counts, and the refusal of a schedule that has one chunk per rank and no microbatch
// groups.
[[nodiscard]] std::optional<std::string> refuse_chunks(std::string_view name,
                                                       const PipelineShape& shape);

// refuse_counts, and the refusal of a schedule that has exactly two chunks per rank.
[[nodiscard]] std::optional<std::string> refuse_not_two_chunks(std::string_view name,
                                                               const PipelineShape& shape);

// ---- schedules planned with times
//
// The planner (Qi et al. 2401.10241, section 3): every rank in turn takes the forward or backward
// whose input is there, fills its waits with weight gradients, and runs those first when its memory
// is full.
//
//   zero_bubble_lists({.stages = 4, .microbatches = 8, .activation_limit = 4}, durations);

// Several rules of choice are tried and the shortest result kept (then the one with the least
// waiting). A rank never holds more than `shape.activation_limit` chunk activations, from their
// forward to their weight gradient. Durations as for play_schedule.
// REQUIRES: shape.activation_limit >= shape.chunks.
[[nodiscard]] ScheduleLists zero_bubble_lists(const PipelineShape& shape,
                                              const StepDurations& durations);

// The shape's costs, the same on every rank, as play_schedule takes them.
[[nodiscard]] StepDurations durations_of(const PipelineShape& shape);

}  // namespace trainyard
