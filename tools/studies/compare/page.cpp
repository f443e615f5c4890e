#include "sim/render/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "sim/render/page/charts.hpp"
#include "sim/render/svg.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/compare/comparison.hpp"

namespace trainyard {

namespace {

constexpr double kLabels = 150.0;
constexpr double kSpan = 810.0;
constexpr double kRow = 26.0;

std::string side_title(const ComparedSide& side) {
  std::string title = fmt::format("{}: {}", side.name, side.variant.file);
  for (const Override& change : side.variant.changes)
    title += fmt::format(" {}={}", change.path, change.value);
  return title;
}

std::string picture(std::string_view title, double height, const std::string& body) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" font-size=\"12\" "
      "fill=\"currentColor\">\n<title>{}</title>\n{}</svg>\n",
      kLabels + kSpan, height, svg_escaped(title), body);
}

std::string bar_label(double y, std::string_view text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                     kLabels - 8.0, y + 14.0, svg_escaped(text));
}

std::string bar(double x, double y, double width, std::string_view colour, std::string_view title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"18\" fill=\"{}\">"
      "<title>{}</title></rect>\n",
      x, y, width, colour, svg_escaped(title));
}

// The scale that all bars share. It is positive even if no side gave a result.
double longest_step(const Comparison& comparison) {
  double longest = 1e-12;
  for (const ComparedSide& side : comparison.sides)
    if (side.figures.ran) longest = std::max(longest, side.figures.step_time_s);
  for (const std::vector<ChangeStep>& way : comparison.steps)
    for (const ChangeStep& step : way) longest = std::max(longest, step.step_time_s);
  return longest;
}

// One bar for each side, all on one scale: the breakdown of the time of the mean rank.
std::string breakdown_bars(const Comparison& comparison) {
  const double longest = longest_step(comparison);
  std::string body;
  std::set<std::string> used;
  double y = 0.0;
  for (const ComparedSide& side : comparison.sides) {
    body += bar_label(y, side.name);
    double x = kLabels;
    for (const auto& [name, seconds] : mean_breakdown(side.row)) {
      if (seconds <= 0.0) continue;
      const double width = seconds / longest * kSpan;
      body += bar(x, y, width, share_colour(name),
                  fmt::format("{}: {}", name, to_text(Seconds{seconds})));
      x += width;
      used.insert(name);
    }
    y += kRow;
  }
  std::string html = picture("Where the time of a rank goes, on each side", y, body) + "<p>";
  for (const std::string& name : used)
    html += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>\n",
                        share_colour(name), svg_escaped(name));
  return html + "</p>\n";
}

// The step time after each change between the first side and another. A colour marks the part that
// a change removes or adds.
std::string steps_chart(const Comparison& comparison, std::size_t to) {
  const double longest = longest_step(comparison);
  const ComparedSide& first = comparison.sides.front();
  double before = first.figures.step_time_s;
  std::string body =
      bar_label(0.0, "as " + first.name) +
      bar(kLabels, 0.0, before / longest * kSpan, "#56B4E9", to_text(Seconds{before}));
  double y = kRow;
  for (const ChangeStep& step : comparison.steps[to]) {
    const double now = step.step_time_s;
    const double least = std::min(before, now);
    const std::string title = fmt::format("{}: {:+.3g} s ({})", fmt::join(step.paths, ", "),
                                          now - before, signed_percent(now / before - 1.0));
    body += bar(kLabels, y, least / longest * kSpan, "#56B4E9", title);
    body += bar(kLabels + least / longest * kSpan, y, std::abs(now - before) / longest * kSpan,
                now < before ? "#009E73" : "#D55E00", title);
    body += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.1f}\" fill=\"#111\" "
        "stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>\n",
        kLabels + 6.0, y + 14.0, svg_escaped(title));
    before = now;
    y += kRow;
  }
  return fmt::format("<h3>From {} to {}</h3>\n", first.name, comparison.sides[to].name) +
         picture("Step time, one change after the other", y, body);
}

std::string block(const std::string& text) {
  return text.empty() ? "" : "<pre>" + html_escaped(text) + "</pre>\n";
}

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, body);
}

std::string verdicts(const Comparison& comparison) {
  std::string html;
  for (std::size_t side = 1; side < comparison.sides.size(); ++side) {
    const bool fits = comparison.sides[side].figures.status == RunStatus::Fits;
    html += fmt::format("<p class=\"verdict {}\">{}</p>\n", fits ? "fits" : "fails",
                        svg_escaped(comparison_verdict(comparison, side)));
  }
  return html;
}

std::string ways(const Comparison& comparison, const std::string& text) {
  std::string html;
  for (std::size_t to = 1; to < comparison.steps.size(); ++to)
    if (!comparison.steps[to].empty()) html += steps_chart(comparison, to);
  return html.empty() ? html : html + block(text);
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
  return text;
}

std::string comparison_page(const Comparison& comparison) {
  const ComparisonSections parts = comparison_sections(comparison);
  std::string title = side_title(comparison.sides.front());
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Compared: "
      "{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>What if?</h1>\n",
      svg_escaped(title), page_style());
  for (const ComparedSide& side : comparison.sides)
    html += "<p>" + svg_escaped(side_title(side)) + "</p>\n";
  html += verdicts(comparison);
  html += section("inputs", "Inputs that differ", block(parts.inputs)) +
          section("figures", "Key figures", block(parts.figures)) +
          section("breakdown", "Where the time goes",
                  breakdown_bars(comparison) + block(parts.breakdown)) +
          section("changes", "What each change did", ways(comparison, parts.steps)) +
          section("communication", "Collectives", block(parts.collectives)) +
          section("links", "Links", block(parts.links));
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace trainyard
