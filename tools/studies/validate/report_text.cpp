#include <fmt/format.h>

#include "sim/render/text_table.hpp"
#include "tools/studies/validate/report.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kPartsNamed = 3;
constexpr std::size_t kIdsNamed = 3;

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

}  // namespace

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

std::string validation_text(const std::vector<Outcome>& outcomes, const ReportChoice& choice) {
  const GroupScore all = score_of_all(outcomes);
  std::string text = fmt::format("{} measured runs: {} predicted, {} not\n\n", outcomes.size(),
                                 all.score.rows, all.refused);
  TextTable table(titles(""));
  table.row(cells(all));
  text += table.text() + "\n";
  for (const Feature feature : choice.groups) {
    TextTable groups(titles(to_string(feature)));
    for (const GroupScore& group : scores_by(outcomes, feature)) groups.row(cells(group));
    text += groups.text() + "\n";
  }
  if (!choice.left_out.empty()) {
    TextTable without(titles("source left out"));
    without.row(cells(score_of_all(choice.left_out)));
    for (const GroupScore& group : scores_by(choice.left_out, Feature::Source))
      without.row(cells(group));
    text += without.text() + "\n";
  }
  text += memory_line(outcomes);
  text += worst_text(outcomes, choice.worst);
  return text + refusals_text(outcomes);
}

}  // namespace trainyard
