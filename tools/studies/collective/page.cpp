#include "tools/studies/collective/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"

namespace trainyard {

namespace {

constexpr double kGigabytes = 1e-9;  // of a byte

std::string x_text(PlotAxis axis, double value) {
  if (axis == PlotAxis::Size) return size_text(std::llround(value));
  return fmt::format("{:.0f}{}", value, value == 1.0 ? " node" : " nodes");
}

// Bus bandwidth over size or over nodes. Over nodes it is logarithmic, because the chart has large
// and small calls. Empty if there is no point.
std::string busbw_chart(const std::string& title, PlotAxis axis,
                        const std::vector<PlotSeries>& all) {
  double least_x = std::numeric_limits<double>::infinity(), most_x = 0.0;
  double least = least_x, most = 0.0;
  std::vector<ChartSeries> series;
  for (const PlotSeries& one : all) {
    ChartSeries& made = series.emplace_back(ChartSeries{.name = one.name, .joined = !one.measured});
    for (const PlotPoint& point : one.points) {
      if (!(point.x > 0.0 && point.busbw > 0.0)) continue;
      const double rate = point.busbw * kGigabytes;
      least_x = std::min(least_x, point.x), most_x = std::max(most_x, point.x);
      least = std::min(least, rate), most = std::max(most, rate);
      made.points.push_back(
          {point.x, rate, fmt::format("{}\n{}: {:.4g} GB/s", one.name, x_text(axis, point.x), rate),
           one.measured});
    }
  }
  if (most <= 0.0) return "";
  const auto label = [axis](double value) {
    return axis == PlotAxis::Size ? size_text(std::llround(value)) : fmt::format("{:.0f}", value);
  };
  return xy_chart(
      {.title = title,
       .x = log_scale(axis == PlotAxis::Size ? "size" : "nodes", least_x, most_x, 2.0, label),
       .y = axis == PlotAxis::Size
                ? linear_scale("busbw (GB/s)", most)
                : log_scale("busbw (GB/s)", least, most, 10.0,
                            [](double rate) { return fmt::format("{:.4g}", rate); }),
       .series = std::move(series)});
}

// The time of a call over size, where small messages differ, both axes logarithmic.
std::string time_chart(const CollectiveStudy& study, const MeasuredTimes* measured) {
  double least = std::numeric_limits<double>::infinity(), most = 0.0;
  std::vector<ChartSeries> series;
  const auto add = [&](ChartSeries& to, std::int64_t bytes, double time_s) {
    const double time_us = time_s * 1e6;
    least = std::min(least, time_us), most = std::max(most, time_us);
    to.points.push_back(
        {static_cast<double>(bytes), time_us,
         fmt::format("{}\n{}: {}", to.name, size_text(bytes), to_text(Seconds{time_s})),
         !to.joined});
  };
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    if (algorithm.refusal) continue;
    ChartSeries& one = series.emplace_back(ChartSeries{.name = algorithm.algorithm});
    for (const CollectiveRow& row : algorithm.rows) add(one, row.bytes, row.time_s);
  }
  if (measured != nullptr) {
    ChartSeries& one = series.emplace_back(ChartSeries{.name = "measured", .joined = false});
    for (const MeasuredTime& time : measured->times) add(one, time.bytes, time.time_s);
  }
  if (most <= 0.0) return "";
  const auto [first, last] = std::ranges::minmax(study.sizes);
  return xy_chart({.title = "Time of a call over size",
                   .x = log_scale("size", static_cast<double>(first), static_cast<double>(last),
                                  2.0, [](double bytes) { return size_text(std::llround(bytes)); }),
                   .y = log_scale("time (us)", least, most, 10.0,
                                  [](double time_us) { return fmt::format("{:.6g}", time_us); }),
                   .series = std::move(series)});
}

// Names the quickest algorithm by size: "ring up to 64 KiB, tree from there".
std::string quickest_text(const CollectiveStudy& study) {
  const std::vector<Winner> best = winners(study);
  if (best.empty()) return "No algorithm can run on this group.";
  std::string text;
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (i > 0 && best[i].algorithm == best[i - 1].algorithm) continue;
    text += fmt::format("{}{} from {}", text.empty() ? "The quickest: " : ", ",
                        study.algorithms[best[i].algorithm].algorithm, size_text(best[i].bytes));
  }
  return text + ".";
}

PagePart algorithm_part(const CollectiveStudy& study, const AlgorithmStudy& algorithm,
                        const MeasuredTimes* measured) {
  std::string html;
  if (measured != nullptr) html += html_paragraph(agreement_line(algorithm, *measured));
  if (const auto lines = spread_lines(algorithm); !lines.empty()) html += html_list(lines);
  html += html_details(fmt::format("{} sizes", algorithm.rows.size()),
                       html_table(algorithm_table(study, algorithm, measured)));
  return {"algorithm-" + algorithm.algorithm, algorithm.algorithm, std::move(html)};
}

}  // namespace

std::string collective_page(const CollectiveStudy& study, const std::string& place,
                            const MeasuredTimes* measured) {
  std::vector<PagePart> algorithms;
  std::vector<std::string> refused;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    if (algorithm.refusal) {
      refused.push_back(algorithm.algorithm + ": " + *algorithm.refusal);
    } else {
      algorithms.push_back(algorithm_part(study, algorithm, measured));
    }
  }
  const bool any = !algorithms.empty();
  return page_document(
      {.title = fmt::format("{} over {} ranks", to_string(study.op), study.ranks),
       .lead = html_facts({{"cluster", place},
                           {"type", std::string(to_string(study.dtype))},
                           {"sizes", fmt::format("{} to {}", size_text(study.sizes.front()),
                                                 size_text(study.sizes.back()))}}) +
               html_verdict(quickest_text(study), any),
       .parts = {
           {"busbw", "How fast is it?",
            busbw_chart("Bus bandwidth over size", PlotAxis::Size, series_of(study, measured)) +
                time_chart(study, measured)},
           {"winners", "Which algorithm is the quickest?",
            any ? html_list(crossover_lines(study)) + html_table(winners_table(study)) : ""},
           {"rows", "All rows", "", std::move(algorithms)},
           {"refused", "What cannot run on this group?", html_list(refused)}}});
}

std::string interference_page(const InterferenceStudy& study, const std::string& place) {
  // The text has one decimal of a percent. A smaller slow-down than 0.05 % would read as 0.0 %.
  double slowest = 1.0;
  for (const GroupRow& row : study.rows) slowest = std::max(slowest, row.slowdown());
  return page_document(
      {.title = "Groups at once on " + place,
       .lead = html_verdict(
           slowest > 1.0005 ? fmt::format("The groups slow one another down, by up to {:.1f} %.",
                                          100.0 * (slowest - 1.0))
                            : "The groups do not slow one another down.",
           slowest <= 1.0005),
       .parts = {{"busbw", "How fast is each, alone and together?",
                  busbw_chart("Bus bandwidth over size, alone and together", PlotAxis::Size,
                              series_of(study))},
                 {"rows", "All groups", html_table(interference_table(study))}}});
}

std::string scaling_page(std::span<const ScaledStudy> studies, const std::string& place) {
  const CollectiveStudy& first = studies.front().study;
  const SvgPlot over_nodes = scaling_plot(studies, "Bus bandwidth over nodes");
  std::vector<PagePart> sizes, tables;
  for (const ScaledStudy& scaled : studies)
    sizes.push_back({fmt::format("nodes-{}", scaled.nodes), x_text(PlotAxis::Nodes, scaled.nodes),
                     busbw_chart(fmt::format("Bus bandwidth over size, {}",
                                             x_text(PlotAxis::Nodes, scaled.nodes)),
                                 PlotAxis::Size, series_of(scaled.study, nullptr))});
  for (std::size_t i = 0; i < first.algorithms.size(); ++i)
    tables.push_back({"algorithm-" + first.algorithms[i].algorithm, first.algorithms[i].algorithm,
                      html_paragraph("busbw in GB/s") + html_table(scaling_table(studies, i))});
  return page_document(
      {.title = fmt::format("{} over nodes", to_string(first.op)),
       .lead = html_facts({{"cluster", place}, {"type", std::string(to_string(first.dtype))}}),
       .parts = {{"scaling", "What does scale cost?",
                  busbw_chart(over_nodes.title, over_nodes.axis, over_nodes.series)},
                 {"busbw", "How fast is it over size?", "",
                  first.sizes.size() > 1 ? std::move(sizes) : std::vector<PagePart>{}},
                 {"rows", "All rows", "", std::move(tables)},
                 {"refused", "What cannot run?", html_list(scaling_refusals(studies))}}});
}

}  // namespace trainyard
