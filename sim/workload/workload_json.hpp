// Workloads as files: write one to look at or to keep, read one that a person or a program wrote.
//
// The form is described in workload_format.md. Writing and reading back gives the same workload to
// the last bit.
//
//   write_file("step.json", to_json(workload));
//   Workload again = read_workload("step.json");
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "sim/workload/workload.hpp"

namespace trainyard {

// One operation per line. REQUIRES: the workload is valid.
[[nodiscard]] std::string to_json(const Workload& workload);

// One operation as in such a file, with its kernel, call or delay in place instead of a number.
[[nodiscard]] nlohmann::ordered_json operation_to_json(const Workload& workload,
                                                       const Program& program, OpIndex op);

// Reads, validates and checks for deadlock. Throws InputError with all problems found.
[[nodiscard]] Workload read_workload(const std::filesystem::path& file);
// Does so for text; `name` stands for the file in problems.
[[nodiscard]] Workload parse_workload(const std::string& name, std::string_view text);

}  // namespace trainyard
