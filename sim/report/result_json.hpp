// The machine-readable result of a run: one JSON object whose keys are stable. Names of keys
// contain the SI unit. A value is null where it does not apply. Where the run plays several steps
// (parameter servers), the result also has `steps` and `all_steps_time_s`: times are then means
// over the steps, while the moment of the peak, counts and bytes cover all steps.
//
//    write_file("result.json", to_text(result_json(view)));
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "sim/report/run_view.hpp"

namespace trainyard {

[[nodiscard]] nlohmann::ordered_json result_json(const RunView& view);

// The parts of the result that are separate reports.
[[nodiscard]] nlohmann::ordered_json breakdown_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json documents_json(const RunView& view);    // null without packing
[[nodiscard]] nlohmann::ordered_json local_steps_json(const RunView& view);  // null: one worker
[[nodiscard]] nlohmann::ordered_json batches_json(const RunView& view);  // null unless requested
[[nodiscard]] nlohmann::ordered_json energy_json(const RunView& view);   // null without power
[[nodiscard]] nlohmann::ordered_json memory_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json links_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json collectives_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json placement_json(const RunView& view);
[[nodiscard]] nlohmann::ordered_json costs_json(const RunView& view);

// Returns null for a value that is absent.
[[nodiscard]] nlohmann::ordered_json or_null(const std::optional<double>& value);

// Returns the rank classes: [{class, ranks, members: [{first, length, every, times}], program,
// unlike, cause, path: [{kind, here, there}], because}]. REQUIRES: the run recorded the reasons of
// its fold (RunView::fold_reasons); the array is empty otherwise.
[[nodiscard]] nlohmann::ordered_json rank_classes_json(const RunView& view);

// Asserts that every number is finite and that no number whose key ends in "bytes" is negative.
// Without this check JSON would print null for a number that is not finite, and the fault would
// pass unnoticed.
void check_numbers(const nlohmann::ordered_json& json, std::string_view key = {});

// Prints indented JSON with a final newline. Each number has its shortest form that reads back the
// same. REQUIRES: check_numbers.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json& json, int indentation = 2);

// Prints the same on one line without a newline, for a line of a journal or the reply of a worker
// process. REQUIRES: check_numbers.
[[nodiscard]] std::string to_line(const nlohmann::ordered_json& json);

}  // namespace trainyard
