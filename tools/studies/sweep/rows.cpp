#include "tools/studies/sweep/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/batch/row.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

std::vector<std::string> changed_paths(const SweepRows& rows) {
  std::vector<std::string> paths;
  for (const SweepRow& row : rows) {
    for (const Override& change : row.variant.changes) {
      if (std::find(paths.begin(), paths.end(), change.path) == paths.end())
        paths.push_back(change.path);
    }
  }
  return paths;
}

std::string short_name(const std::string& path, const std::vector<std::string>& paths) {
  const auto last = [](const std::string& text) {
    return text.substr(text.find_last_of("./") + 1);
  };
  const auto equal_names = std::count_if(paths.begin(), paths.end(), [&](const std::string& other) {
    return last(other) == last(path);
  });
  return equal_names == 1 ? last(path) : path;
}

std::string changed_value(const Variant& variant, const std::string& path) {
  std::string value = "-";
  for (const Override& change : variant.changes) {
    if (change.path == path) value = change.value;  // the last one counts
  }
  return value;
}

namespace {

std::string number_or_dash(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

// Figures that only some scenarios have: the path in the result, and the title of the column.
struct ExtraColumn {
  std::string_view path;
  const char* title;
};
constexpr ExtraColumn kExtraColumns[] = {{"energy.step.energy_kwh", "kWh/step"},
                                         {"energy.step.cost", "cost/step"},
                                         {"goodput.mean", "goodput"},
                                         {"goodput.tokens_per_gpu_hour", "tokens/GPU-h"}};

// The extra columns for which at least one row has a value.
std::vector<ExtraColumn> extra_columns(const SweepRows& rows) {
  std::vector<ExtraColumn> columns;
  std::ranges::copy_if(kExtraColumns, std::back_inserter(columns), [&](const ExtraColumn& column) {
    return std::ranges::any_of(
        rows, [&](const SweepRow& row) { return row_number(row.row, column.path).has_value(); });
  });
  return columns;
}

// The cells of a run, in the order of the titles in sweep_table().
std::vector<std::string> figure_cells(const Json& row, const std::vector<ExtraColumn>& extra,
                                      bool interval) {
  const RowFigures figures = row_figures(row);
  std::vector<std::string> cells{"-", "-", "-", "-"};
  if (figures.ran)
    cells = {
        fmt::format("{:.4g} s", figures.step_time_s),
        figures.tokens_per_s_per_gpu ? fmt::format("{:.0f}", *figures.tokens_per_s_per_gpu) : "-",
        figures.mfu ? percent(*figures.mfu) : "-", to_text(Bytes{figures.peak_bytes})};
  if (interval)
    cells.insert(cells.begin() + 1, figures.interval ? interval_text(*figures.interval) : "-");
  for (const ExtraColumn& column : extra)
    cells.push_back(number_or_dash(row_number(row, column.path)));
  cells.emplace_back(!figures.ran                        ? word_for(kRunStatus, figures.status)
                     : figures.status == RunStatus::Fits ? "yes"
                                                         : "no");
  return cells;
}

}  // namespace

const SweepRow* quickest_run(const SweepRows& rows) {
  const SweepRow* best = nullptr;
  double best_s = 0.0;
  for (const SweepRow& row : rows) {
    if (row.row.is_null()) continue;
    const RowFigures figures = row_figures(row.row);
    if (figures.status != RunStatus::Fits || (best != nullptr && figures.step_time_s >= best_s))
      continue;
    best = &row;
    best_s = figures.step_time_s;
  }
  return best;
}

std::string sweep_counts(const SweepRows& rows) {
  if (rows.empty()) return "0 runs";
  std::map<std::optional<RunStatus>, std::size_t> counts;  // no status: not run yet
  for (const SweepRow& row : rows)
    ++counts[row.row.is_null() ? std::nullopt : std::optional(row_figures(row.row).status)];
  std::string text = fmt::format("{} runs: ", rows.size());
  constexpr std::pair<std::optional<RunStatus>, const char*> kWords[] = {
      {RunStatus::Fits, "fit"},
      {RunStatus::DoesNotFit, "do not fit"},
      {RunStatus::Deadlock, "cannot proceed"},
      {RunStatus::Refused, "refused"},
      {RunStatus::Crashed, "crashed"},
      {std::nullopt, "still to do"}};
  bool first = true;
  for (const auto& [status, words] : kWords) {
    if (!counts.contains(status)) continue;
    text += fmt::format("{}{} {}", first ? "" : ", ", counts[status], words);
    first = false;
  }
  return text;
}

namespace {

// Each reason once, with the number of runs that it stopped.
std::vector<std::pair<std::string, std::size_t>> reasons_of(const SweepRows& rows) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const SweepRow& row : rows) {
    if (row.row.is_null() || !row.row["message"].is_string()) continue;
    std::string reason = row.row["message"].get<std::string>();
    reason = reason.substr(0, reason.find('\n'));
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& entry) { return entry.first == reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  }
  return reasons;
}

std::string reasons_text(const SweepRows& rows) {
  constexpr std::size_t kMost = 6;
  const std::vector<std::string> reasons = sweep_reasons(rows);
  std::string text;
  for (std::size_t i = 0; i < std::min(reasons.size(), kMost); ++i)
    text += wrapped("  " + reasons[i], 6);
  if (reasons.size() > kMost)
    text +=
        fmt::format("  and {} other reasons (the JSON Lines have them)\n", reasons.size() - kMost);
  return text;
}

// A row as flat columns. An input and a figure may have one path, so inputs have the prefix "in.".
Json columns_of(const Json& row) {
  Json columns = Json::object();
  for (const char* key : {"scenario", "status", "message"}) columns[key] = row.value(key, Json());
  for (const auto& [path, value] : row["set"].items()) columns["set." + path] = value;
  for (const char* part : {"inputs", "result"}) {
    if (!row[part].is_object()) continue;
    for (const auto& [path, value] : row[part].items())
      columns[part == std::string_view("inputs") ? "in." + path : path] = value;
  }
  return columns;
}

}  // namespace

// The rows in the order of the variants. Equal variants have one row; a variant that has not run
// has a null row.
SweepRows sweep_rows(const std::vector<Variant>& variants, const Journal& journal) {
  std::map<std::string, const Json*> known;
  for (const Json& row : journal.rows()) known[row["key"].get<std::string>()] = &row;
  SweepRows rows;
  std::set<std::string> seen;
  for (const Variant& variant : variants) {
    const std::string key = variant_key(variant);
    if (!seen.insert(key).second) continue;
    const auto found = known.find(key);
    rows.push_back({variant, found == known.end() ? Json() : *found->second});
  }
  return rows;
}

std::vector<std::string> sweep_reasons(const SweepRows& rows) {
  std::vector<std::string> lines;
  for (const auto& [reason, count] : reasons_of(rows))
    lines.push_back(fmt::format("{} x {}", count, reason));
  return lines;
}

TextTable sweep_table(const SweepRows& rows) {
  const std::vector<std::string> paths = changed_paths(rows);
  std::vector<std::string> titles;
  for (const std::string& path : paths) titles.push_back(short_name(path, paths));
  if (titles.empty()) titles.emplace_back("run");
  const std::vector<ExtraColumn> extra = extra_columns(rows);
  const bool interval = std::ranges::any_of(
      rows, [](const SweepRow& row) { return row_figures(row.row).interval.has_value(); });
  for (const char* title : {"step", "tokens/s/GPU", "MFU", "peak"}) titles.emplace_back(title);
  // Behind the step, as figure_cells() puts it.
  if (interval) titles.insert(titles.end() - 3, "9 of 10 runs");
  for (const ExtraColumn& column : extra) titles.emplace_back(column.title);
  titles.insert(titles.end(), {"fits", ""});
  TextTable table(titles);
  const SweepRow* best = quickest_run(rows);
  for (const SweepRow& row : rows) {
    if (row.row.is_null()) continue;
    std::vector<std::string> cells;
    for (const std::string& path : paths) cells.push_back(changed_value(row.variant, path));
    if (cells.empty()) cells.push_back(row.variant.file);
    for (std::string& text : figure_cells(row.row, extra, interval))
      cells.push_back(std::move(text));
    cells.emplace_back(&row == best ? "<- quickest" : "");
    table.row(std::move(cells));
  }
  return table;
}

std::string sweep_text(const SweepRows& rows) {
  return sweep_table(rows).text() + "\n" + sweep_counts(rows) + "\n" + reasons_text(rows);
}

// Results may have different columns, so the header is the union in the order of appearance.
std::string sweep_csv(const SweepRows& rows) {
  std::vector<Json> lines;
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const SweepRow& row : rows) {
    if (row.row.is_null()) continue;
    lines.push_back(columns_of(row.row));
    for (const auto& [name, value] : lines.back().items())
      if (known.insert(name).second) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + csv_field(name);
  text += '\n';
  for (const Json& line : lines) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) text += ',';
      if (line.contains(names[i])) text += csv_cell(line[names[i]]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace trainyard
