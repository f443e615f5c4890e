// Reports on a run, selected by name, each as text, JSON and, where it is a table, CSV.
//
// To add one: write a section, its JSON (result_json.hpp) and, where it has rows, its CSV. Add an
// entry to registry.cpp, which the command, the result and the folder of CSV files read.
//
//    for (const ReportEntry& report : reports()) fmt::print("{}\n", report.name);
//    find_report("links")->text(view);
//    write_csv_directory(view, "out/csv");   // one file per report with a CSV, and spans.csv
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/render/text_table.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct ReportEntry {
  std::string_view name;
  std::string_view summary;
  std::string (*text)(const RunView&);
  nlohmann::ordered_json (*json)(const RunView&);
  std::string (*csv)(const RunView&);  // nullptr: the report is not a table
  std::string_view result_key = {};  // key of its JSON in result_json(); empty: the result omits it
};

[[nodiscard]] std::span<const ReportEntry> reports();
// Returns nullptr when no report has that name.
[[nodiscard]] const ReportEntry* find_report(std::string_view name);

// Returns the full report for people: verdict, key figures, breakdown of time, links, memory,
// notes. It has at most 100 columns of plain ASCII.
[[nodiscard]] std::string summary_text(const RunView& view);

// The sections of the summary. Each is a table with its heading, and each report prints one of
// them.

// Returns one line: "fits: 61.2 GiB of 79.6 GiB on the fullest stage (0); one step takes 13.21 s".
[[nodiscard]] std::string verdict_line(const RunView& view);
// The lines that name the simulated setup and its timed faults; with the limit of the step in the
// heading.
[[nodiscard]] std::vector<SetupLine> setup_and_faults(const RunView& view);
[[nodiscard]] std::vector<SetupLine> heading_lines(const RunView& view);
[[nodiscard]] std::string setup_section(const RunView& view);
// One sentence without a full stop on what limits the step: the largest share of the time of a
// rank, mean over all ranks, and the largest loss. Empty for a step without time.
[[nodiscard]] std::string limit_sentence(const RunView& view);
[[nodiscard]] std::string figures_section(const RunView& view);
[[nodiscard]] std::string breakdown_section(const RunView& view);
[[nodiscard]] std::string memory_section(const RunView& view);
[[nodiscard]] std::string links_section(const RunView& view);
[[nodiscard]] std::string collectives_section(const RunView& view);
[[nodiscard]] std::string placement_section(const RunView& view);
[[nodiscard]] std::string costs_section(const RunView& view);
// The step over several batches: its mean with the interval, and what balancing saves; empty unless
// several were requested.
[[nodiscard]] std::string batches_section(const RunView& view);
// How unevenly the attention of packed documents is divided, and the time lost waiting; empty
// without packing. The table and the sentence before it are its parts.
[[nodiscard]] std::string documents_section(const RunView& view);
// The exchange between workers that train apart: its time, the mean step, its memory; empty where
// there is one worker.
[[nodiscard]] std::string local_steps_section(const RunView& view);
// Energy by kind, power, its changes, and what they cost; empty without a block `power`. The table
// and the lines (energy_figures.hpp) are its parts.
[[nodiscard]] std::string energy_section(const RunView& view);
// Returns the data files of the user, the assumptions, the defaults of the framework and the
// approximations.
[[nodiscard]] std::string notes_section(const RunView& view);

// A key figure as text. `published` and `difference` are empty where nothing was published.
struct FigureLine {
  std::string figure;  // "step_time_s", "mfu"; empty: nothing can be compared with it
  std::string title;   // "step time"
  std::string predicted, published, difference;
};
// The key figures, the step time first, and the published figures without a line of their own.
[[nodiscard]] std::vector<FigureLine> figure_lines(const RunView& view);
[[nodiscard]] TextTable figures_table(const std::vector<FigureLine>& lines, bool with_published);
// "15 T tokens take 2058 days, 395 100 GPU-hours, which cost 987 750"; empty without a token
// budget.
[[nodiscard]] std::string training_sentence(const RunView& view);

// The tables of the sections, for other forms of the report. A table without content has no rows.
[[nodiscard]] TextTable breakdown_table(const RunView& view);  // by stage, % of the step
[[nodiscard]] TextTable memory_table(const RunView& view);
[[nodiscard]] TextTable links_table(const RunView& view);
[[nodiscard]] TextTable collectives_table(const RunView& view);
[[nodiscard]] TextTable placement_table(const RunView& view);

// Returns the rank classes and why they are not one class. Each class is listed with its members
// and the path from its first rank, through groups, flows and links, to the difference from the
// class most similar to it.
[[nodiscard]] std::string fold_section(const RunView& view);

// Comma-separated values for pandas and DuckDB: one tidy row per entity, SI units in the column
// names.
[[nodiscard]] std::string breakdown_csv(const RunView& view);
[[nodiscard]] std::string energy_csv(const RunView& view);
[[nodiscard]] std::string memory_csv(const RunView& view);
[[nodiscard]] std::string links_csv(const RunView& view);
[[nodiscard]] std::string collectives_csv(const RunView& view);

// Writes NAME.csv for each report that is a table, and spans.csv. The columns of spans.csv have the
// names that `nsys export` uses (start, end, streamId, deviceId, name; nanoseconds), so that a
// simulated and a profiled run join on them. Creates the folder. Throws InputError when a file
// cannot be written.
void write_csv_directory(const RunView& view, const std::filesystem::path& directory);

}  // namespace trainyard
