// Reports: everything that can be said about a run, by name, as text, JSON and CSV.
//
// To add one: write a section, its JSON (result_json.hpp) and, where it has rows, its CSV; add a
// row to registry.cpp, which the command, the result and the folder of CSV files read.
//
//   for (const ReportEntry& report : reports()) fmt::print("{}\n", report.name);
//   find_report("links")->text(view);
//   write_csv_directory(view, "out/csv");   // breakdown, memory, links, collectives and spans
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sim/report/run_view.hpp"

namespace trainyard {

struct ReportEntry {
  std::string_view name;
  std::string_view summary;
  std::string (*text)(const RunView&);
  nlohmann::ordered_json (*json)(const RunView&);
  std::string (*csv)(const RunView&);  // nullptr: the report is not a table
  std::string_view result_key = {};    // of the JSON in result_json(); empty: it is not in there
};

[[nodiscard]] std::span<const ReportEntry> reports();
// nullptr when there is none of that name.
[[nodiscard]] const ReportEntry* find_report(std::string_view name);

// Everything, for people: the verdict, the key figures, where the time goes, links, memory, notes.
// At most 100 columns of plain ASCII.
[[nodiscard]] std::string summary_text(const RunView& view);

// The sections of the summary, each a table with its heading. A report prints one of them.

// "fits: 61.2 GiB of 79.6 GiB on the fullest stage (0); one step takes 13.21 s". One line.
[[nodiscard]] std::string verdict_line(const RunView& view);
[[nodiscard]] std::string figures_section(const RunView& view);
[[nodiscard]] std::string breakdown_section(const RunView& view);
[[nodiscard]] std::string memory_section(const RunView& view);
[[nodiscard]] std::string links_section(const RunView& view);
[[nodiscard]] std::string collectives_section(const RunView& view);
[[nodiscard]] std::string placement_section(const RunView& view);
[[nodiscard]] std::string costs_section(const RunView& view);
[[nodiscard]] std::string notes_section(const RunView& view);  // assumptions and approximations

// The classes that ranks were folded into, and why they are not one: each class with its members,
// and the way from its first rank, through groups, flows and links, to what differs from the class
// most like it.
[[nodiscard]] std::string fold_section(const RunView& view);

// Comma-separated values for pandas and DuckDB: one tidy row for each thing, SI units in the names
// of columns.
[[nodiscard]] std::string breakdown_csv(const RunView& view);
[[nodiscard]] std::string memory_csv(const RunView& view);
[[nodiscard]] std::string links_csv(const RunView& view);
[[nodiscard]] std::string collectives_csv(const RunView& view);

// Writes NAME.csv for each report that is a table, and spans.csv, which uses the column words of
// `nsys export` (start, end, streamId, deviceId, name; nanoseconds), so that a simulated run and a
// profiled one join on them. Creates the folder. Throws InputError when it cannot be written.
void write_csv_directory(const RunView& view, const std::filesystem::path& directory);

}  // namespace trainyard
