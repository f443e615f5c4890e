// The schedules of this folder, for the registry. A new schedule adds its declaration here, its row
// in registry.cpp and its file; nobody else includes this header.
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

// That, and the refusal of a schedule that has one chunk per rank and no microbatch groups.
[[nodiscard]] std::optional<std::string> refuse_chunks(std::string_view name,
                                                       const PipelineShape& shape);

// That, and the refusal of a schedule that has exactly two chunks per rank.
[[nodiscard]] std::optional<std::string> refuse_not_two_chunks(std::string_view name,
                                                               const PipelineShape& shape);

}  // namespace trainyard
