// The machine-readable result of a run: one JSON object whose keys are stable (design section 6).
// SI units stand in the names; null where a thing does not apply. Where several steps were played
// (parameter servers) there are also `steps` and `all_steps_time_s`: times are then means over the
// steps, while the moment of the peak, counts and bytes are of all of them.
//
//   write_file("result.json", to_text(result_json(view)));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sim/report/run_view.hpp"

namespace trainyard {

[[nodiscard]] nlohmann::ordered_json result_json(const RunView& view);

// The parts that are reports of their own.
[[nodiscard]] nlohmann::ordered_json breakdown_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json memory_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json links_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json collectives_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json placement_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json costs_json(const RunView& view);

// The classes that ranks were folded into: [{class, ranks, members: [{first, length, every,
// times}], program, unlike, cause, path: [{kind, here, there}], because}]. REQUIRES: the run was
// asked for its reasons.
[[nodiscard]] nlohmann::ordered_json rank_classes_json(const RunView& view);

// An assertion at the writers: every number is finite, and a number whose name ends in "bytes" is
// not negative. (JSON would print a null for a number that is not finite, and nobody would know.)
void check_numbers(const nlohmann::ordered_json& json, std::string_view key = {});

// Indented, with a last newline; numbers in their shortest form that reads back the same. REQUIRES:
// check_numbers.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json& json, int indentation = 2);

// The same as one line without its end, as a journal's row or a worker's answer. REQUIRES:
// check_numbers.
[[nodiscard]] std::string to_line(const nlohmann::ordered_json& json);

}  // namespace trainyard
