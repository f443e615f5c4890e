// One reader for each format of a run's log. Each returns events in any order, and throws
// InputError for a line that it does not understand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/studies/run_log/run_log.hpp"

namespace trainyard {

// Comma-separated events of steps and interruptions (docs/how_to/fit_my_run_log.md).
[[nodiscard]] RunLog read_csv_log(const std::string& file, std::string_view text);

// Entries of Cloud Logging as JSON (an array, or one entry a line), which Google's
// ml-goodput-measurement and Orbax write.
[[nodiscard]] RunLog read_cloud_log(const std::string& file, std::string_view text);

// Lines of the launcher of NVIDIA's resiliency extension: "Cycle: 1 Event: failure_detected Node:
// n3 Rank: 5 Time: 2026-03-01 12:00:00.000 UTC". Lines without such an event are skipped.
[[nodiscard]] RunLog read_nvrx_log(const std::string& file, std::string_view text);

// The table that `sacct --parsable2` prints, with its header.
[[nodiscard]] RunLog read_slurm_log(const std::string& file, std::string_view text);

[[noreturn]] void refuse_line(const std::string& file, std::size_t line, const std::string& problem,
                              const std::string& hint);

// The lines of a text without the ends of lines.
[[nodiscard]] std::vector<std::string_view> lines_of_log(std::string_view text);

}  // namespace trainyard
