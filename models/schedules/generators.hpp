// Declarations of the schedules of this folder, for the registry in schedule.cpp. A new schedule
// needs a declaration here, an entry in schedule.cpp, its own file and a line in CMakeLists.txt.
// The tests of the planner also include this header.
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

// Returns the refusal of a shape that no schedule supports: a count below 1.
[[nodiscard]] std::optional<std::string> refuse_counts(const PipelineShape& shape);

// refuse_counts, and the refusal for a schedule that has one chunk per rank and no microbatch
// groups.
[[nodiscard]] std::optional<std::string> refuse_chunks(std::string_view name,
                                                       const PipelineShape& shape);

// refuse_counts, and the refusal for a schedule that has exactly two chunks per rank.
[[nodiscard]] std::optional<std::string> refuse_not_two_chunks(std::string_view name,
                                                               const PipelineShape& shape);

// ---- schedules planned with times
//
// The planner is a greedy list scheduler (Qi et al. 2401.10241, section 3). Each rank starts the
// forward or backward whose input has arrived, fills idle time with weight gradients, and runs
// those first when its memory is full.
//
//    const PipelineShape shape{.stages = 4, .microbatches = 8, .activation_limit = 4};
//    const ScheduleLists lists = zero_bubble_lists(shape, durations_of(shape));

// Plans with several priority rules and returns the shortest result (of equal ones, that with the
// least waiting). A rank never holds more than `shape.activation_limit` chunk activations; each is
// held from its forward to its weight gradient. Durations have the meaning of play_schedule.
// REQUIRES: shape.activation_limit >= shape.chunks.
[[nodiscard]] ScheduleLists zero_bubble_lists(const PipelineShape& shape,
                                              const StepDurations& durations);

// Converts the costs of the shape, equal on every rank, into the durations that play_schedule
// takes.
[[nodiscard]] StepDurations durations_of(const PipelineShape& shape);

}  // namespace trainyard
