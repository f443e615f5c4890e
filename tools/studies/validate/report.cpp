// A validation as text for a terminal, and as Markdown for the accuracy page.
#include "tools/studies/validate/report.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/validate/patterns.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kPartsNamed = 3;
constexpr std::size_t kIdsNamed = 3;
constexpr std::size_t kPatternsNamed = 6;

// One line of a table of scores. The scores of a group without a predicted row are empty.
std::vector<std::string> cells(const GroupScore& group) {
  const Score& score = group.score;
  std::vector<std::string> row{group.group, fmt::format("{}", score.rows),
                               group.refused > 0 ? fmt::format("{}", group.refused) : ""};
  if (score.rows == 0) {
    row.insert(row.end(), 5, "");
  } else {
    for (const std::string& text :
         {percent(score.mape), signed_percent(score.bias), percent(score.median),
          percent(score.p90), percent(score.worst)}) {
      row.push_back(text);
    }
  }
  return row;
}

std::vector<std::string> titles(std::string_view first) {
  return {std::string(first), "rows", "not", "MAPE", "bias", "median", "p90", "worst"};
}

// All rows; the groups of each feature; and the same with each source, or GPU, left out.
std::vector<TextTable> score_tables(const std::vector<Outcome>& outcomes,
                                    const ReportChoice& choice) {
  std::vector<TextTable> tables{TextTable(titles(""))};
  tables.front().row(cells(score_of_all(outcomes)));
  for (const Feature feature : choice.groups) {
    TextTable& groups = tables.emplace_back(titles(to_string(feature)));
    for (const GroupScore& group : scores_by(outcomes, feature)) groups.row(cells(group));
  }
  for (const LeftOutRuns& runs : choice.left_out) {
    TextTable& without =
        tables.emplace_back(titles(fmt::format("{} left out", to_string(runs.feature))));
    without.row(cells(score_of_all(runs.outcomes)));
    for (const GroupScore& group : scores_by(runs.outcomes, runs.feature))
      without.row(cells(group));
  }
  return tables;
}

std::string worst_text(const std::vector<Outcome>& outcomes, std::size_t most) {
  std::string text;
  for (const Outcome* outcome : worst_first(outcomes)) {
    if (most-- == 0) break;
    text += fmt::format("  {}  {}: measured {:.4g} s, predicted {:.4g} s\n      {}\n",
                        signed_percent(outcome->error()), outcome->row.id, outcome->row.step_time_s,
                        outcome->predicted_s, parts_text(*outcome, kPartsNamed));
  }
  return text.empty() ? "" : "Worst rows, and where their predicted time goes\n" + text + "\n";
}

// The features and parts that tell most of the errors that remain.
std::string patterns_text(const std::vector<Outcome>& outcomes) {
  const TextTable table = patterns_table(outcomes, kPatternsNamed);
  if (table.rows().empty()) return "";
  return "Patterns that remain, and the share of the errors' variance that they explain\n" +
         table.text() + "\n";
}

std::string refusals_text(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Refusal& refusal : refusals(outcomes)) {
    std::string ids;
    for (std::size_t index = 0; index < std::min(kIdsNamed, refusal.ids.size()); ++index) {
      ids += (index == 0 ? "" : ", ") + refusal.ids[index];
    }
    if (refusal.ids.size() > kIdsNamed) ids += ", ...";
    text +=
        wrapped(fmt::format("  {:>4}  {} ({})", refusal.ids.size(), refusal.reason, ids), 8) + "\n";
  }
  return text.empty() ? "" : "Not predicted, and why\n" + text + "\n";
}

// The errors of peak memory as one line and an empty line. It is empty if no memory was measured.
std::string memory_line(const std::vector<Outcome>& outcomes) {
  std::vector<double> errors;
  for (const Outcome& outcome : outcomes) {
    if (const std::optional<double> error = outcome.memory_error()) errors.push_back(*error);
  }
  if (errors.empty()) return "";
  const Score score = score_of(errors);
  return fmt::format("Peak memory of {} rows: MAPE {}, bias {}, worst {}\n\n", score.rows,
                     percent(score.mape), signed_percent(score.bias), percent(score.worst));
}

// How many measured steps are within the intervals of their predictions, as one line and an empty
// line. It is empty without intervals.
std::string intervals_line(const std::vector<Outcome>& outcomes) {
  std::size_t runs = 0, inside = 0;
  for (const Outcome& outcome : outcomes) {
    const std::optional<bool> holds = outcome.inside();
    if (!holds) continue;
    ++runs;
    if (*holds) ++inside;
  }
  if (runs == 0) return "";
  return fmt::format("{} of {} measured steps ({}) are within the intervals of 90 %\n\n", inside,
                     runs, percent(static_cast<double>(inside) / static_cast<double>(runs)));
}

}  // namespace

std::string validation_text(const std::vector<Outcome>& outcomes, const ReportChoice& choice) {
  const GroupScore all = score_of_all(outcomes);
  std::string text = fmt::format("{} measured runs: {} predicted, {} not\n\n", outcomes.size(),
                                 all.score.rows, all.refused);
  for (const TextTable& table : score_tables(outcomes, choice)) text += table.text() + "\n";
  text += intervals_line(outcomes);
  text += patterns_text(outcomes);
  text += memory_line(outcomes);
  text += worst_text(outcomes, choice.worst);
  return text + refusals_text(outcomes);
}

using Json = nlohmann::ordered_json;

namespace {

TextTable worst_table(const std::vector<Outcome>& outcomes, std::size_t most) {
  TextTable table({"row", "measured", "predicted", "error", "where the predicted time goes"});
  for (const Outcome* outcome : worst_first(outcomes)) {
    if (most-- == 0) break;
    table.row({outcome->row.id, fmt::format("{:.4g} s", outcome->row.step_time_s),
               fmt::format("{:.4g} s", outcome->predicted_s), signed_percent(outcome->error()),
               parts_text(*outcome, 2)});
  }
  return table;
}

// Collects the commands that fitted constants. A recorded command is the "command" of an object
// with fitted constants, or the beginning of a constant's "source".
void collect_fits(const Json& json, std::set<std::string>& commands) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    const auto text = value.is_string() ? value.get<std::string>() : std::string();
    // A constant that was fitted alone has the command in its own source.
    const bool named = key == "source" &&
                       (text.starts_with("trainyard calibrate") || text.starts_with("fit_host"));
    if (named || (key == "command" && !text.empty())) commands.insert(text);
    collect_fits(value, commands);
  }
}

// Every command that fitted constants of the data files, with the files that contain its constants.
std::string recorded_fits() {
  namespace fs = std::filesystem;
  std::map<std::string, std::set<std::string>> files;
  const fs::path top = data_directory();
  for (const std::string_view folder : data_folders()) {
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      if (entry.path().extension() != ".json") continue;
      std::set<std::string> commands;
      const std::string name = entry.path().string();
      collect_fits(parse_json(name, read_file(entry.path())), commands);
      for (const std::string& command : commands)
        files[command].insert(fs::relative(entry.path(), top).string());
    }
  }
  std::string text;
  for (const auto& [command, names] : files)
    text += fmt::format("- `{}`: {}\n", command, fmt::join(names, ", "));
  return text;
}

}  // namespace

std::string validation_markdown(const std::vector<Outcome>& outcomes, const ReportChoice& choice) {
  const GroupScore all = score_of_all(outcomes);
  std::string text = fmt::format("{} measured runs, {} predicted ({}, {}).\n\n", outcomes.size(),
                                 all.score.rows, choice.program, choice.date);
  for (const TextTable& table : score_tables(outcomes, choice)) text += table.markdown() + "\n";
  if (const TextTable table = patterns_table(outcomes, kPatternsNamed); !table.rows().empty())
    text += table.markdown() + "\n";
  text += intervals_line(outcomes);
  text += memory_line(outcomes);
  if (choice.worst > 0)
    text += "Worst rows:\n\n" + worst_table(outcomes, choice.worst).markdown() + "\n";
  const std::vector<Refusal> reasons = refusals(outcomes);
  if (!reasons.empty()) text += "Not predicted:\n\n";
  for (const Refusal& refusal : reasons) {
    text += fmt::format("- {} rows: {}\n", refusal.ids.size(), refusal.reason);
  }
  return text + "\nConstants that were fitted, and the commands that fitted them:\n\n" +
         recorded_fits();
}

}  // namespace trainyard
