#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/render/page/charts.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/compare/comparison.hpp"

namespace trainyard {

namespace {

std::string changes_text(const ComparedSide& side) {
  std::string text;
  for (const Override& change : side.variant.changes)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", change.path, change.value);
  return text;
}

// The facts that the sides share, then each side.
std::vector<PageFact> sides_facts(const Comparison& comparison) {
  std::vector<PageFact> facts;
  std::vector<const nlohmann::ordered_json*> rows;
  for (const ComparedSide& side : comparison.sides) rows.push_back(&side.row);
  for (const auto& [name, text] : shared_setup(rows)) facts.push_back({name, text});
  for (const ComparedSide& side : comparison.sides) {
    const std::string changes = changes_text(side);
    std::string text = side.variant.file + (changes.empty() ? "" : " with " + changes);
    if (side.row["message"].is_string()) text += ": " + side.row["message"].get<std::string>();
    facts.push_back({side.name, std::move(text)});
  }
  return facts;
}

std::string verdicts(const Comparison& comparison) {
  std::string html;
  for (std::size_t side = 1; side < comparison.sides.size(); ++side) {
    const RowFigures& figures = comparison.sides[side].figures;
    const bool slower = figures.step_time_s > comparison.sides.front().figures.step_time_s;
    html += html_verdict(comparison_verdict(comparison, side),
                         figures.status == RunStatus::Fits && !slower);
  }
  return html;
}

// One bar for each side, all on one scale: the breakdown of the time of the mean rank.
std::string breakdown_bars(const Comparison& comparison) {
  std::vector<BarRow> rows;
  for (const ComparedSide& side : comparison.sides) {
    if (!side.figures.ran) continue;
    BarRow& row = rows.emplace_back(
        BarRow{.label = side.name, .total = to_text(Seconds{side.figures.step_time_s})});
    for (const auto& [name, seconds] : mean_breakdown(side.row))
      if (seconds > 0.0) row.parts.push_back(share_part(name, seconds, 0.0));
  }
  return bar_chart("Where the time of a rank goes, on each side", rows);
}

// The step time after each change between the first side and another. A colour marks the part that
// a change removes or adds.
std::string steps_chart(const Comparison& comparison, std::size_t to) {
  constexpr const char *kKept = "#56B4E9", *kSaved = "#009E73", *kAdded = "#D55E00";
  double before = comparison.sides.front().figures.step_time_s;
  std::vector<BarRow> rows{{.label = "as " + comparison.sides.front().name,
                            .parts = {{"step time", kKept, before, to_text(Seconds{before})}},
                            .total = to_text(Seconds{before})}};
  for (const ChangeStep& step : comparison.steps[to]) {
    const double now = step.step_time_s;
    // The bar is as long as the larger of both times: a common part, and the part saved or added.
    const double least = std::min(before, now);
    const std::string change = fmt::format("{:+.3g} s", now - before);
    BarRow row{
        .label = fmt::format("change {}", rows.size()),
        .parts = {{"step time", kKept, least, to_text(Seconds{least})}},
        .total = fmt::format("{} ({})", to_text(Seconds{now}), signed_percent(now / before - 1.0))};
    if (now != before)
      row.parts.push_back({now < before ? "saved" : "added", now < before ? kSaved : kAdded,
                           std::abs(now - before), change});
    rows.push_back(std::move(row));
    before = now;
  }
  return bar_chart("Step time, one change after the other", rows);
}

std::string steps_part(const Comparison& comparison, std::size_t to) {
  std::vector<PageFact> changes;
  for (const ChangeStep& step : comparison.steps[to])
    changes.push_back({fmt::format("change {}", changes.size() + 1),
                       fmt::format("{}", fmt::join(step.paths, ", "))});
  return html_facts(changes) + steps_chart(comparison, to);
}

std::vector<PagePart> changes_parts(const Comparison& comparison) {
  std::vector<PagePart> parts;
  for (std::size_t to = 1; to < comparison.steps.size(); ++to) {
    if (comparison.steps[to].empty()) continue;
    const std::string& name = comparison.sides[to].name;
    parts.push_back({"changes-" + name,
                     fmt::format("From {} to {}", comparison.sides.front().name, name),
                     steps_part(comparison, to)});
  }
  return parts;
}

}  // namespace

std::string comparison_verdict(const Comparison& comparison, std::size_t side) {
  const ComparedSide& first = comparison.sides.front();
  const ComparedSide& other = comparison.sides.at(side);
  if (!other.figures.ran || !first.figures.ran)
    return fmt::format("{} cannot be compared: {}", other.name,
                       other.figures.ran ? first.name + " gave no result"
                                         : std::string(word_for(kRunStatus, other.figures.status)));
  const double ratio = other.figures.step_time_s / first.figures.step_time_s;
  std::string text =
      // The text has one decimal of a percent, so a smaller difference would read as 0.0 %.
      std::abs(ratio - 1.0) < 5e-4
          ? fmt::format("{} takes as long as {}", other.name, first.name)
          : fmt::format("{} is {:.1f} % {} than {}", other.name, 100.0 * std::abs(ratio - 1.0),
                        ratio < 1.0 ? "quicker" : "slower", first.name);
  if (other.figures.status != RunStatus::Fits) text += ", but does not fit";
  const bool same =
      std::ranges::none_of(comparison.differences, [side](const InputDifference& difference) {
        return difference.values.at(side) != difference.values.front();
      });
  if (same) text += ", which is the same scenario; two measurements of it scatter";
  if (const auto measured = measured_ratio(comparison, other)) text += ": " + ratio_text(*measured);
  return text;
}

std::string comparison_page(const Comparison& comparison) {
  const ComparisonTables tables = comparison_tables(comparison);
  return page_document(
      {.title = "What if? " +
                std::filesystem::path(comparison.sides.front().variant.file).stem().string(),
       .lead = html_facts(sides_facts(comparison)) + verdicts(comparison),
       .parts = {{"figures", "How fast are they, and do they fit?", html_table(tables.figures)},
                 {"inputs", "Which inputs differ?",
                  comparison.differences.empty() ? html_paragraph("The inputs are the same.")
                                                 : html_table(tables.inputs)},
                 {"changes", "What did each change do?", "", changes_parts(comparison)},
                 {"breakdown", "Where does the time go?",
                  breakdown_bars(comparison) +
                      html_details("The same in figures", html_table(tables.breakdown))},
                 {"show",
                  "Show me",
                  "",
                  {{"communication", "Calls of collectives", html_table(tables.collectives)},
                   {"links", "Links", html_table(tables.links)}}}}});
}

}  // namespace trainyard
