#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/compare/comparison.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Cells titles(const Comparison& comparison, const std::string& first) {
  Cells cells{first};
  for (const ComparedSide& side : comparison.sides) cells.push_back(side.name);
  return cells;
}

std::string sides_text(const Comparison& comparison) {
  std::string text;
  for (const ComparedSide& side : comparison.sides) {
    std::string line = fmt::format("{}  {}", side.name, side.variant.file);
    for (const Override& change : side.variant.changes)
      line += fmt::format(" {}={}", change.path, change.value);
    text += wrapped(line, 3);
    if (side.row["message"].is_string())
      text += wrapped("   " + side.row["message"].get<std::string>(), 3);
  }
  return text;
}

// A value as people write it. A long value is cut, and an object with a name is shown by its name.
std::string shown_value(const Json& value) {
  constexpr std::size_t kMost = 28;
  if (value.is_null()) return "-";
  if (value.is_object() && value.contains("name") && value["name"].is_string())
    return value["name"].get<std::string>() + " (changed)";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

TextTable inputs_table(const Comparison& comparison) {
  TextTable table(titles(comparison, "inputs that differ"));
  for (const InputDifference& difference : comparison.differences) {
    Cells cells{difference.path};
    for (const Json& value : difference.values) cells.push_back(shown_value(value));
    table.row(std::move(cells));
  }
  return table;
}

// A value, and its change against the first side: "1.234 s (-4.5 %)".
std::string against(double value, double first, const std::string& text, bool is_first) {
  if (is_first || !(first > 0.0)) return text;
  return fmt::format("{} ({})", text, signed_percent(value / first - 1.0));
}

// One line of the table of figures. A side without a result, or without the figure, has "-".
template <class Value, class Print>
Cells figure_row(const Comparison& comparison, const std::string& title, const Value& value,
                 const Print& print) {
  Cells cells{title};
  const std::optional<double> first = value(comparison.sides.front().figures);
  for (const ComparedSide& side : comparison.sides) {
    const bool is_first = &side == &comparison.sides.front();
    const std::optional<double> here = value(side.figures);
    cells.push_back(side.figures.ran && here
                        ? against(*here, first.value_or(0.0), print(*here), is_first)
                        : "-");
  }
  return cells;
}

TextTable figures_table(const Comparison& comparison) {
  TextTable table(titles(comparison, "figures"));
  using F = RowFigures;
  table.row(figure_row(
      comparison, "step time", [](const F& f) { return f.step_time_s; },
      [](double s) { return fmt::format("{:.4g} s", s); }));
  if (comparison.sides.front().figures.interval) {
    Cells cells{"in nine of ten runs"};
    for (const ComparedSide& side : comparison.sides)
      cells.push_back(side.figures.interval ? interval_text(*side.figures.interval) : "-");
    table.row(std::move(cells));
  }
  table.row(figure_row(
      comparison, "tokens/s per GPU",
      [](const F& f) { return f.tokens_per_s_per_gpu.value_or(0.0); },
      [](double rate) { return fmt::format("{:.0f}", rate); }));
  table.row(figure_row(
      comparison, "MFU", [](const F& f) { return f.mfu.value_or(0.0); },
      [](double mfu) { return percent(mfu); }));
  table.row(figure_row(
      comparison, "peak memory", [](const F& f) { return f.peak_bytes; },
      [](double bytes) { return to_text(Bytes{bytes}); }));
  const auto any_has = [&](std::optional<double> F::*figure) {
    return std::ranges::any_of(comparison.sides, [&](const ComparedSide& side) {
      return (side.figures.*figure).has_value();
    });
  };
  const auto plain = [](double value) { return fmt::format("{:.4g}", value); };
  if (any_has(&F::energy_kwh))
    table.row(figure_row(
        comparison, "energy of a step, kWh", [](const F& f) { return f.energy_kwh; }, plain));
  if (any_has(&F::cost))
    table.row(figure_row(
        comparison, "cost of a step", [](const F& f) { return f.cost; }, plain));
  Cells fits{"fits"};
  for (const ComparedSide& side : comparison.sides)
    fits.emplace_back(side.figures.status == RunStatus::Fits ? "yes"
                      : side.figures.ran                     ? "no"
                                         : word_for(kRunStatus, side.figures.status));
  table.row(std::move(fits));
  return table;
}

// The shares of the breakdown that take at least a thousandth of any step, the largest change
// first.
TextTable breakdown_table(const Comparison& comparison) {
  std::vector<std::map<std::string, double>> sides;
  std::vector<std::string> names;
  for (const ComparedSide& side : comparison.sides) {
    auto& shares = sides.emplace_back();
    for (const auto& [name, seconds] : mean_breakdown(side.row)) {
      shares[name] = seconds;
      const bool counts = seconds >= 1e-3 * side.figures.step_time_s;
      if (counts && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    }
  }
  const auto widest = [&](const std::string& name) {
    double most = 0.0;
    for (const auto& shares : sides) {
      const auto here = shares.find(name);
      const auto first = sides.front().find(name);
      if (here == shares.end() || first == sides.front().end()) continue;
      most = std::max(most, std::abs(here->second - first->second));
    }
    return most;
  };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return widest(a) > widest(b);
  });
  TextTable table(titles(comparison, "mean rank, s (largest change first)"));
  for (const std::string& name : names) {
    Cells cells{name};
    for (std::size_t side = 0; side < sides.size(); ++side) {
      const auto here = sides[side].find(name);
      if (here == sides[side].end()) {
        cells.emplace_back("-");
        continue;
      }
      const auto first = sides.front().find(name);
      const bool plain = side == 0 || first == sides.front().end();
      cells.push_back(
          plain ? fmt::format("{:.4g}", here->second)
                : fmt::format("{:.4g} ({:+.3g})", here->second, here->second - first->second));
    }
    table.row(std::move(cells));
  }
  return table;
}

std::string text_of(const Json& row, const std::string& path) {
  const auto found = row["result"].find(path);
  return found != row["result"].end() && found->is_string() ? found->get<std::string>() : "";
}

// A table of one list of the result ("collectives", "links"), whose entries have names made of
// their fields.
template <class Name, class Cell>
TextTable list_table(const Comparison& comparison, const std::string& title,
                     const std::string& list, const Name& name_of, const Cell& cell_of) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> sides;
  for (const ComparedSide& side : comparison.sides) {
    auto& cells = sides.emplace_back();
    // A row has flat keys ("collectives.0.group"), so the list ends at the first number without a
    // name.
    for (std::size_t number = 0; side.figures.ran; ++number) {
      const std::string prefix = fmt::format("{}.{}.", list, number);
      const std::string name = name_of(side.row, prefix);
      if (name.empty()) break;
      // Entries with equal names share a cell.
      std::string& cell = cells[name];
      cell += (cell.empty() ? "" : "; ") + cell_of(side.row, prefix);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  TextTable table(titles(comparison, title));
  for (const std::string& name : names) {
    Cells cells{name};
    for (const auto& side : sides) {
      const auto found = side.find(name);
      cells.push_back(found == side.end() ? "-" : found->second);
    }
    table.row(std::move(cells));
  }
  return table;
}

TextTable collectives_table(const Comparison& comparison) {
  return list_table(
      comparison, "mean time of a call", "collectives",
      [](const Json& row, const std::string& prefix) {
        const std::string group = text_of(row, prefix + "group");
        return group.empty() ? group : group + " " + text_of(row, prefix + "op");
      },
      [](const Json& row, const std::string& prefix) {
        return fmt::format("{} {}",
                           to_text(Seconds{row_number(row, prefix + "mean_time_s").value_or(0.0)}),
                           text_of(row, prefix + "algorithm"));
      });
}

TextTable links_table(const Comparison& comparison) {
  return list_table(
      comparison, "busiest link, busy", "links",
      [](const Json& row, const std::string& prefix) { return text_of(row, prefix + "kind"); },
      [](const Json& row, const std::string& prefix) {
        return percent(row_number(row, prefix + "busiest_link_busy_fraction").value_or(0.0));
      });
}

TextTable steps_table(const Comparison& comparison, std::size_t to) {
  double before = comparison.sides.front().figures.step_time_s;
  TextTable table({"change", "step time", "", ""});
  table.row({"as " + comparison.sides.front().name, fmt::format("{:.4g} s", before), "", ""});
  for (const ChangeStep& step : comparison.steps[to]) {
    table.row({joined(step.paths), fmt::format("{:.4g} s", step.step_time_s),
               fmt::format("{:+.3g} s", step.step_time_s - before),
               before > 0.0 ? signed_percent(step.step_time_s / before - 1.0) : ""});
    before = step.step_time_s;
  }
  return table;
}

std::string steps_text(const Comparison& comparison) {
  std::string text;
  for (std::size_t to = 1; to < comparison.steps.size(); ++to) {
    if (comparison.steps[to].empty()) continue;
    text += fmt::format("\nFrom {} to {}, one change after the other:\n",
                        comparison.sides.front().name, comparison.sides[to].name) +
            steps_table(comparison, to).text();
  }
  return text;
}

// A table with an empty line before it; nothing where it has no rows.
std::string following(const TextTable& table) {
  return table.rows().empty() ? "" : "\n" + table.text();
}

}  // namespace

ComparisonTables comparison_tables(const Comparison& comparison) {
  return {.inputs = inputs_table(comparison),
          .figures = figures_table(comparison),
          .breakdown = breakdown_table(comparison),
          .collectives = collectives_table(comparison),
          .links = links_table(comparison)};
}

std::string comparison_text(const Comparison& comparison) {
  const ComparisonTables tables = comparison_tables(comparison);
  std::string verdicts;
  for (std::size_t side = 1; side < comparison.sides.size(); ++side)
    verdicts += wrapped(comparison_verdict(comparison, side), 2);
  return sides_text(comparison) + verdicts + "\n" +
         (comparison.differences.empty() ? "The inputs are the same.\n" : tables.inputs.text()) +
         "\n" + tables.figures.text() + "\n" + tables.breakdown.text() +
         following(tables.collectives) + following(tables.links) + steps_text(comparison);
}

Json comparison_json(const Comparison& comparison) {
  Json sides = Json::array();
  for (const ComparedSide& side : comparison.sides) {
    Json object{{"name", side.name}};
    object.update(side.row);
    if (const auto ratio = measured_ratio(comparison, side)) object["ratio"] = ratio_json(*ratio);
    sides.push_back(std::move(object));
  }
  Json differences = Json::array();
  for (const InputDifference& difference : comparison.differences)
    differences.push_back({{"path", difference.path}, {"values", difference.values}});
  Json ways = Json::array();
  for (std::size_t to = 1; to < comparison.steps.size(); ++to) {
    double before = comparison.sides.front().figures.step_time_s;
    Json changes = Json::array();
    for (const ChangeStep& step : comparison.steps[to]) {
      changes.push_back({{"paths", step.paths},
                         {"step_time_s", step.step_time_s},
                         {"change", step.step_time_s / before - 1.0}});
      before = step.step_time_s;
    }
    if (changes.empty()) continue;
    ways.push_back({{"from", comparison.sides.front().name},
                    {"to", comparison.sides[to].name},
                    {"changes", std::move(changes)}});
  }
  return {{"sides", std::move(sides)},
          {"differences", std::move(differences)},
          {"steps", std::move(ways)}};
}

std::string comparison_csv(const Comparison& comparison) {
  std::string text = "section,name";
  for (const ComparedSide& side : comparison.sides) text += "," + side.name;
  text += '\n';
  for (const InputDifference& difference : comparison.differences) {
    text += "input," + csv_field(difference.path);
    for (const Json& value : difference.values) text += "," + csv_cell(value);
    text += '\n';
  }
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const ComparedSide& side : comparison.sides) {
    if (!side.row["result"].is_object()) continue;
    for (const auto& [path, value] : side.row["result"].items())
      if (known.insert(path).second) names.push_back(path);
  }
  for (const std::string& name : names) {
    text += "result," + csv_cell(name);
    for (const ComparedSide& side : comparison.sides)
      text += "," + (side.row["result"].is_object() && side.row["result"].contains(name)
                         ? csv_cell(side.row["result"][name])
                         : std::string());
    text += '\n';
  }
  return text;
}

}  // namespace trainyard
