// Workload files: writes a workload as JSON, and reads one that a person or a program wrote.
//
// workload_format.md describes the format. A workload that is written and read again is equal to
// the last bit.
//
//    write_file("step.json", to_json(workload));
//    Workload again = read_workload("step.json");
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Writes one operation per line. REQUIRES: the workload is valid.
[[nodiscard]] std::string to_json(const Workload& workload);

// Returns one operation as in such a file, with its kernel, call or delay inline instead of an
// index.
[[nodiscard]] nlohmann::ordered_json operation_to_json(const Workload& workload,
                                                       const Program& program, OpIndex op);

// Reads, validates, and checks for deadlock. Throws InputError with the problems found.
[[nodiscard]] Workload read_workload(const std::filesystem::path& file);
// Reads a workload from text. `name` is the file name in problems.
[[nodiscard]] Workload parse_workload(const std::string& name, std::string_view text);

}  // namespace trainyard
