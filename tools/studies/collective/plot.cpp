#include "tools/studies/collective/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/render/svg.hpp"
#include "tools/studies/collective/arguments.hpp"

namespace trainyard {

namespace {

// A logarithmic axis from `least` to `most`, divided into cells.
struct CellAxis {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;

  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] std::size_t cell(double value, std::size_t cells) const {
    // A single value has no range to divide.
    if (most <= least) return 0;
    const double place = std::log(value / least) / std::log(most / least);
    return static_cast<std::size_t>(std::lround(place * static_cast<double>(cells - 1)));
  }
  // The value at the middle of a cell.
  [[nodiscard]] double value(std::size_t cell, std::size_t cells) const {
    const double place = static_cast<double>(cell) / static_cast<double>(cells - 1);
    return least * std::pow(most / least, place);
  }
};

struct CellAxes {
  CellAxis size, busbw;
};
CellAxes cell_axes_of(const CollectiveStudy& study) {
  CellAxes axes;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      axes.size.include(static_cast<double>(row.bytes));
      axes.busbw.include(row.busbw);
    }
  }
  return axes;
}

// The lines of the plot, the highest bandwidth first.
std::vector<std::string> drawn(const CollectiveStudy& study, const CellAxes& axes,
                               const PlotArea& area) {
  const std::string letters = plot_letters(study);
  std::vector<std::string> lines(area.lines, std::string(area.columns, ' '));
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    for (const CollectiveRow& row : study.algorithms[i].rows) {
      const std::size_t x = axes.size.cell(static_cast<double>(row.bytes), area.columns);
      const std::size_t y = axes.busbw.cell(row.busbw, area.lines);
      // A star marks a cell that several algorithms share.
      char& place = lines[area.lines - 1 - y][x];
      place = place == ' ' || place == letters[i] ? letters[i] : '*';
    }
  }
  return lines;
}

}  // namespace

// The letter of each algorithm: the first free letter of its name, or else any free letter.
std::string plot_letters(const CollectiveStudy& study) {
  constexpr std::string_view kAny = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string letters;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    const std::string candidates = algorithm.algorithm + std::string(kAny);
    const auto free = std::find_if(candidates.begin(), candidates.end(), [&](char letter) {
      return kAny.find(letter) != std::string_view::npos &&
             letters.find(letter) == std::string::npos;
    });
    letters += free == candidates.end() ? '?' : *free;
  }
  return letters;
}

std::string plot_text(const CollectiveStudy& study, const PlotArea& area) {
  const CellAxes axes = cell_axes_of(study);
  if (axes.busbw.most <= 0.0) return {};
  std::string text = "busbw (GB/s) over size, both logarithmic\n";
  const std::vector<std::string> lines = drawn(study, axes, area);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double value = axes.busbw.value(area.lines - 1 - i, area.lines) * 1e-9;
    const std::string label =
        i % 4 == 0 || i + 1 == lines.size() ? fmt::format("{:.3g}", value) : "";
    const std::string& line = lines[i];
    text += fmt::format("{:>9} |{}\n", label, line.substr(0, line.find_last_not_of(' ') + 1));
  }
  const std::string least = size_text(std::llround(axes.size.least));
  const std::string most = size_text(std::llround(axes.size.most));
  text += fmt::format("{:>9} +{:-<{}}\n", "", "", area.columns);
  text += fmt::format("{:>9}  {}{:>{}}\n", "", least, most, area.columns - least.size());
  const std::string letters = plot_letters(study);
  for (std::size_t i = 0; i < study.algorithms.size(); ++i) {
    if (study.algorithms[i].refusal) continue;
    text += fmt::format("{:>11}  {}\n", letters[i], study.algorithms[i].algorithm);
  }
  return text;
}

namespace {

constexpr double kLeft = 80.0, kTop = 50.0, kWidth = 600.0, kHeight = 400.0;
constexpr double kLegendLeft = kLeft + kWidth + 20.0, kLineHeight = 20.0;

// A logarithmic axis whose limits are powers of `base`.
class Axis {
 public:
  explicit Axis(double base) : base_(base) {}

  void include(double value) {
    if (!(value > 0.0)) return;
    // The tolerance keeps a value that is a power of the base, up to rounding, from adding a tick.
    least_ = std::min(least_, std::floor(power_of(value) + 1e-9));
    most_ = std::max(most_, std::ceil(power_of(value) - 1e-9));
  }
  [[nodiscard]] bool any() const { return least_ <= most_; }
  [[nodiscard]] double place(double value) const {  // 0..1
    return (power_of(value) - least_) / std::max(most_ - least_, 1.0);
  }
  // Powers of the base, about twelve at most.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> values;
    if (!any()) return values;
    const double step = std::max(1.0, std::ceil((most_ - least_) / 12.0));
    for (double power = least_; power <= most_; power += step)
      values.push_back(std::pow(base_, power));
    return values;
  }

 private:
  [[nodiscard]] double power_of(double value) const { return std::log(value) / std::log(base_); }
  double base_;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

struct Axes {
  PlotAxis kind = PlotAxis::Size;
  Axis across{2.0};
  Axis busbw{10.0};

  [[nodiscard]] double x(double value) const { return kLeft + kWidth * across.place(value); }
  // A value of the horizontal axis as text.
  [[nodiscard]] std::string label(double value) const {
    return kind == PlotAxis::Size ? size_text(std::llround(value)) : fmt::format("{:.0f}", value);
  }
  [[nodiscard]] double y(double rate) const { return kTop + kHeight * (1.0 - busbw.place(rate)); }
};

Axes axes_of(const SvgPlot& plot) {
  Axes axes{.kind = plot.axis};
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (!(point.x > 0.0 && point.busbw > 0.0)) continue;
      axes.across.include(point.x);
      axes.busbw.include(point.busbw);
    }
  }
  return axes;
}

std::string grid(const Axes& axes) {
  std::string text;
  for (const double value : axes.across.ticks()) {
    const double x = axes.x(value);
    text += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#ddd\"/>\n", x, kTop,
                        kTop + kHeight);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x,
                        kTop + kHeight + 18.0, axes.label(value));
  }
  for (const double rate : axes.busbw.ticks()) {
    const double y = axes.y(rate);
    text += fmt::format("<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#ddd\"/>\n", kLeft, y,
                        kLeft + kWidth);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n",
                        kLeft - 8.0, y + 4.0, rate * 1e-9);
  }
  text += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft,
      kTop, kWidth, kHeight);
  text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                      kLeft + kWidth / 2.0, kTop + kHeight + 40.0,
                      axes.kind == PlotAxis::Size ? "size" : "nodes");
  text += fmt::format(
      "<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">busbw "
      "(GB/s)</text>\n",
      kTop + kHeight / 2.0);
  return text;
}

// Measured points are drawn as circles without a line.
std::string curve(const PlotSeries& series, const Axes& axes, std::string_view colour) {
  std::string path, circles;
  for (const PlotPoint& point : series.points) {
    if (!(point.x > 0.0 && point.busbw > 0.0)) continue;
    const double x = axes.x(point.x);
    const double y = axes.y(point.busbw);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    circles += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: {}, {:.4g} "
        "GB/s</title></circle>\n",
        x, y, series.measured ? 4 : 2, svg_escaped(series.name), axes.label(point.x),
        point.busbw * 1e-9);
  }
  std::string text;
  if (!series.measured && !path.empty()) {
    text += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path,
                        colour, series.dashed ? " stroke-dasharray=\"6 4\"" : "");
  }
  return text + fmt::format("<g fill=\"{}\" stroke=\"{}\">\n{}</g>\n",
                            series.measured ? "none" : colour, colour, circles);
}

std::string legend_line(const PlotSeries& series, std::size_t line, std::string_view colour) {
  const double y = kTop + 10.0 + kLineHeight * static_cast<double>(line);
  const std::string sign =
      series.measured
          ? fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"none\" stroke=\"{}\"/>",
                        kLegendLeft + 12.0, y, colour)
          : fmt::format("<path d=\"M{:.1f} {:.1f}h24\" stroke=\"{}\" stroke-width=\"2\"{}/>",
                        kLegendLeft, y, colour, series.dashed ? " stroke-dasharray=\"6 4\"" : "");
  return sign + fmt::format("\n<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLegendLeft + 32.0,
                            y + 4.0, svg_escaped(series.name));
}

double height_of(const SvgPlot& plot) {
  const double legend = kTop + 20.0 + kLineHeight * static_cast<double>(plot.series.size());
  return std::max(kTop + kHeight + 60.0, legend);
}

}  // namespace

std::vector<PlotSeries> series_of(const CollectiveStudy& study, const MeasuredTimes* measured) {
  std::vector<PlotSeries> all;
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    if (algorithm.refusal) continue;
    PlotSeries& series = all.emplace_back(PlotSeries{.name = algorithm.algorithm});
    for (const CollectiveRow& row : algorithm.rows)
      series.points.push_back({.x = static_cast<double>(row.bytes), .busbw = row.busbw});
  }
  if (measured != nullptr) {
    PlotSeries& series = all.emplace_back(PlotSeries{.name = "measured", .measured = true});
    for (const MeasuredTime& time : measured->times)
      series.points.push_back({.x = static_cast<double>(time.bytes), .busbw = time.busbw});
  }
  return all;
}

// Two series for each collective: alone (dashed) and together with the other groups.
std::vector<PlotSeries> series_of(const InterferenceStudy& study) {
  std::map<std::string, std::size_t> known;
  std::vector<PlotSeries> all;
  for (const GroupRow& row : study.rows) {
    const std::string name =
        fmt::format("{} {} of {}", to_string(row.op), row.algorithm, row.ranks.size());
    const auto [entry, fresh] = known.try_emplace(name, all.size());
    if (fresh) {
      all.push_back({.name = name + ", alone", .dashed = true});
      all.push_back({.name = name + ", together"});
    }
    const auto bytes = static_cast<double>(row.bytes);
    all[entry->second].points.push_back({.x = bytes, .busbw = row.busbw_alone()});
    all[entry->second + 1].points.push_back({.x = bytes, .busbw = row.busbw_together()});
  }
  return all;
}

std::string svg_plot(const SvgPlot& plot) {
  constexpr double kLegendWidth = 320.0;
  const double width = kLegendLeft + kLegendWidth;
  const double height = height_of(plot);
  const Axes axes = axes_of(plot);
  std::string body = grid(axes);
  for (std::size_t i = 0; i < plot.series.size(); ++i)
    body +=
        curve(plot.series[i], axes, svg_colour(i)) + legend_line(plot.series[i], i, svg_colour(i));
  return svg_page({.title = plot.title, .width = width, .height = height, .body = std::move(body)});
}

}  // namespace trainyard
