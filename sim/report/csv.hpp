// Comma-separated values for pandas and DuckDB: one tidy row per thing, SI units in the column
// names.
//
//   write_csv_directory(view, "out/csv");   // breakdown.csv memory.csv links.csv collectives.csv
//   spans.csv
//
// spans.csv uses the column words of `nsys export` (start, end, streamId, deviceId, name;
// nanoseconds) so that a simulated run and a profiled one join on them.
#pragma once

#include <filesystem>
#include <string>

#include "sim/report/run_view.hpp"

namespace trainyard {

[[nodiscard]] std::string breakdown_csv(const RunView& view);
[[nodiscard]] std::string memory_csv(const RunView& view);
[[nodiscard]] std::string links_csv(const RunView& view);
[[nodiscard]] std::string collectives_csv(const RunView& view);

// Creates the folder. Throws InputError when it cannot be written.
void write_csv_directory(const RunView& view, const std::filesystem::path& directory);

}  // namespace trainyard
