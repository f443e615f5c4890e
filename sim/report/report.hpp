// The registry of reports: what can be said about a run, by name, as text, JSON and CSV.
//
// To add one: write a section (sections.hpp) and, where it has rows, its JSON; add a row to
// registry.cpp.
//
//   for (const ReportEntry& report : reports()) fmt::print("{}  {}\n", report.name,
//   report.summary); find_report("links")->text(view);
#pragma once

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
};

[[nodiscard]] std::span<const ReportEntry> reports();
// nullptr when there is none of that name.
[[nodiscard]] const ReportEntry* find_report(std::string_view name);

// Everything, for people: the verdict, the key figures, where the time goes, links, memory, notes.
// At most 100 columns of plain ASCII.
[[nodiscard]] std::string summary_text(const RunView& view);

}  // namespace trainyard
