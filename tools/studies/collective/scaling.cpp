#include "tools/studies/collective/scaling.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "sim/render/text_table.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/report.hpp"

namespace trainyard {

namespace {}  // namespace

TextTable scaling_table(std::span<const ScaledStudy> studies, std::size_t algorithm) {
  std::vector<std::string> titles{"size"};
  for (const ScaledStudy& scaled : studies)
    titles.push_back(fmt::format("{} node{}", scaled.nodes, scaled.nodes == 1 ? "" : "s"));
  TextTable table(std::move(titles));
  const std::vector<std::int64_t>& sizes = studies.front().study.sizes;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    std::vector<std::string> cells{size_text(sizes[row])};
    for (const ScaledStudy& scaled : studies) {
      const AlgorithmStudy& one = scaled.study.algorithms[algorithm];
      cells.push_back(one.refusal ? "-" : fmt::format("{:.2f}", one.rows[row].busbw * 1e-9));
    }
    table.row(std::move(cells));
  }
  return table;
}

std::vector<std::string> scaling_refusals(std::span<const ScaledStudy> studies) {
  std::vector<std::string> lines;
  for (const ScaledStudy& scaled : studies) {
    for (const AlgorithmStudy& one : scaled.study.algorithms) {
      if (one.refusal)
        lines.push_back(fmt::format("{} on {} node{}: {}", one.algorithm, scaled.nodes,
                                    scaled.nodes == 1 ? "" : "s", *one.refusal));
    }
  }
  return lines;
}

namespace {

PlotSeries series_at(std::span<const ScaledStudy> studies, std::size_t algorithm, std::size_t row) {
  const CollectiveStudy& first = studies.front().study;
  PlotSeries series{.name = fmt::format("{}, {}", first.algorithms[algorithm].algorithm,
                                        size_text(first.sizes[row]))};
  for (const ScaledStudy& scaled : studies) {
    const AlgorithmStudy& one = scaled.study.algorithms[algorithm];
    if (one.refusal) continue;
    series.points.push_back({.x = static_cast<double>(scaled.nodes), .busbw = one.rows[row].busbw});
  }
  return series;
}

}  // namespace

std::string scaling_text(std::span<const ScaledStudy> studies, const std::string& place) {
  const CollectiveStudy& first = studies.front().study;
  std::string text = fmt::format("{} on {}: busbw (GB/s)\n\n", to_string(first.op), place);
  for (std::size_t i = 0; i < first.algorithms.size(); ++i)
    text +=
        fmt::format("{}\n{}\n", first.algorithms[i].algorithm, scaling_table(studies, i).text());
  std::string refused;
  for (const std::string& line : scaling_refusals(studies))
    refused += wrapped("  " + line, 4) + "\n";
  return refused.empty() ? text : text + "Not for these groups\n" + refused;
}

nlohmann::ordered_json scaling_json(std::span<const ScaledStudy> studies) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ScaledStudy& scaled : studies) {
    for (const nlohmann::ordered_json& row : study_json(scaled.study)) {
      nlohmann::ordered_json object{{"nodes", scaled.nodes}};
      object.update(row);
      rows.push_back(std::move(object));
    }
  }
  return rows;
}

std::string scaling_csv(std::span<const ScaledStudy> studies) {
  std::string text;
  for (const ScaledStudy& scaled : studies) {
    std::istringstream lines(study_csv(scaled.study));
    std::string line;
    std::getline(lines, line);  // the titles
    if (text.empty()) text = "nodes," + line + "\n";
    while (std::getline(lines, line)) text += fmt::format("{},{}\n", scaled.nodes, line);
  }
  return text;
}

SvgPlot scaling_plot(std::span<const ScaledStudy> studies, std::string title) {
  SvgPlot plot{.title = std::move(title), .axis = PlotAxis::Nodes};
  const CollectiveStudy& first = studies.front().study;
  for (std::size_t i = 0; i < first.algorithms.size(); ++i) {
    plot.series.push_back(series_at(studies, i, first.sizes.size() - 1));
    if (first.sizes.size() < 2) continue;
    plot.series.push_back(series_at(studies, i, 0));
    plot.series.back().dashed = true;
  }
  std::erase_if(plot.series, [](const PlotSeries& series) { return series.points.empty(); });
  return plot;
}

}  // namespace trainyard
