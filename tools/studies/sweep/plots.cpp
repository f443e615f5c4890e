#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/render/svg.hpp"
#include "tools/studies/batch/row.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {

namespace {

// Sizes of the picture in pixels.
constexpr double kLeft = 80.0, kTop = 50.0, kWidth = 600.0, kHeight = 400.0;

[[noreturn]] void refuse(std::string problem, std::string hint) {
  throw InputError(
      Problem{.file = {}, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

// The values of a point: "8", or "8 + 4" if several fields change together.
std::string label(const std::vector<Override>& point) {
  std::string text;
  for (const Override& change : point) text += (text.empty() ? "" : " + ") + change.value;
  return text;
}

std::string title_of(const Axis& axis) {
  std::string text;
  for (const std::string& path : axis.paths) text += (text.empty() ? "" : " + ") + path;
  return text;
}

struct Cell {
  std::optional<double> value;
  bool fits = false;
};

// The results of a grid by the key of their variant.
class GridCells {
 public:
  GridCells(const SweepRows& rows, const SweepPlot& plot) {
    for (const SweepRow& row : rows) {
      if (row.row.is_null()) continue;
      const auto value = row_number(row.row, plot.metric);
      // The changes of every variant (--set) are not on an axis, so they are not part of the key.
      Variant variant = row.variant;
      variant.changes.erase(variant.changes.begin(),
                            variant.changes.begin() + static_cast<std::ptrdiff_t>(plot.common));
      cells_[variant_key(variant)] = {value, row_figures(row.row).status == RunStatus::Fits};
      if (!value) continue;
      least_ = std::min(least_, *value);
      most_ = std::max(most_, *value);
    }
    if (!(least_ <= most_)) {
      refuse(fmt::format("no run has the figure \"{}\"", plot.metric),
             "name one of the result, such as step_time_s, mfu or peak_bytes");
    }
  }
  [[nodiscard]] const Cell& at(const Variant& variant) const {
    static const Cell kNone;
    const auto found = cells_.find(variant_key(variant));
    return found == cells_.end() ? kNone : found->second;
  }
  [[nodiscard]] double least() const { return least_; }
  [[nodiscard]] double most() const { return most_; }

 private:
  std::map<std::string, Cell> cells_;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

// The distance of ticks: 1, 2 or 5 times a power of ten, so that there are about five up to `most`.
// For 23 it is 5: the ticks are 0, 5, 10, 15 and 20.
double tick_step(double most) {
  const double rough = most / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10.0 * power;
}

// The vertical axis starts at 0.
std::string frame(const SweepPlot& plot, double top_value) {
  std::string text;
  const double step = top_value > 0.0 ? tick_step(top_value) : 1.0;
  for (double value = 0.0; value <= top_value * (1.0 + 1e-9); value += step) {
    const double y = kTop + kHeight * (1.0 - value / top_value);
    text += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#ddd\"/>\n<text x=\"{3:.1f}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        kLeft, y, kLeft + kWidth, kLeft - 8.0, y + 4.0, value);
  }
  const Axis& axis = plot.axes.front();
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const double x =
        kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(axis.points.size());
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x,
                        kTop + kHeight + 18.0, svg_escaped(label(axis.points[i])));
  }
  text += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n"
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n"
      "<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      kLeft, kTop, kWidth, kHeight, kLeft + kWidth / 2.0, kTop + kHeight + 40.0,
      svg_escaped(title_of(axis)), kTop + kHeight / 2.0, svg_escaped(plot.metric));
  return text;
}

struct Line {
  std::string name;
  std::vector<Cell> cells;  // by point of the first axis
};

// Draws one line and its key. A missing result interrupts the line; an open circle marks a run that
// does not fit.
std::string drawn(const Line& line, std::size_t number, double top_value) {
  const std::string_view colour = svg_colour(number);
  std::string path, circles;
  bool gap = true;
  for (std::size_t i = 0; i < line.cells.size(); ++i) {
    const Cell& cell = line.cells[i];
    if (!cell.value) {
      gap = true;
      continue;
    }
    const double x =
        kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(line.cells.size());
    const double y = kTop + kHeight * (1.0 - *cell.value / top_value);
    path += fmt::format("{}{:.1f} {:.1f}", gap ? "M" : "L", x, y);
    gap = false;
    circles += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"{}\"><title>{}: "
        "{:.5g}{}</title></circle>\n",
        x, y, cell.fits ? colour : "#fff", colour, svg_escaped(line.name), *cell.value,
        cell.fits ? "" : ", does not fit");
  }
  const double key_y = kTop + 10.0 + 20.0 * static_cast<double>(number);
  const double key_x = kLeft + kWidth + 20.0;
  return fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}"
      "<path d=\"M{:.1f} {:.1f}h24\" stroke=\"{}\" stroke-width=\"2\"/>\n"
      "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      path.empty() ? "M0 0" : path, colour, circles, key_x, key_y, colour, key_x + 32.0,
      key_y + 4.0, svg_escaped(line.name));
}

// One line for each combination of values of all axes but the first.
std::vector<Line> lines_of(const SweepRows& rows, const SweepPlot& plot, const GridCells& places) {
  const std::string file = rows.front().variant.file;
  std::vector<Line> lines;
  for (const Variant& others : grid("", plot.axes.subspan(1))) {
    Line& line = lines.emplace_back();
    for (const Override& change : others.changes)
      line.name += fmt::format("{}{}={}", line.name.empty() ? "" : " ", change.path, change.value);
    if (line.name.empty()) line.name = plot.metric;
    for (const std::vector<Override>& point : plot.axes.front().points) {
      Variant variant{.file = file, .changes = point};
      variant.changes.insert(variant.changes.end(), others.changes.begin(), others.changes.end());
      line.cells.push_back(places.at(variant));
    }
  }
  return lines;
}

// A colour from light to dark blue, and a readable text colour for it.
struct Shade {
  std::string fill;
  std::string_view text;
};
Shade shade(double share) {
  const auto mix = [share](double light, double dark) {
    return static_cast<int>(std::lround(light + (dark - light) * share));
  };
  return {.fill = fmt::format("#{:02x}{:02x}{:02x}", mix(235, 8), mix(243, 48), mix(250, 107)),
          .text = share > 0.5 ? "#fff" : "#000"};
}

constexpr double kCellWidth = 92.0, kCellHeight = 44.0, kRowTitles = 200.0;

// A cell without a result is grey, and a run that does not fit is struck through.
std::string heat_cell(const Cell& cell, const GridCells& places, double x, double y) {
  const double range = places.most() - places.least();
  const Shade colour = cell.value
                           ? shade(range > 0.0 ? (*cell.value - places.least()) / range : 0.0)
                           : Shade{"#eee", "#000"};
  std::string text = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#fff\"/>\n",
      x, y, kCellWidth, kCellHeight, colour.fill);
  if (cell.value && !cell.fits) {
    text += fmt::format(
        "<path d=\"M{:.1f} {:.1f}l{} {}\" stroke=\"#D55E00\" stroke-width=\"2\"><title>does not "
        "fit</title></path>\n",
        x, y + kCellHeight, kCellWidth, -kCellHeight);
  }
  return text + fmt::format(
                    "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                    "fill=\"{}\">{}</text>\n",
                    x + kCellWidth / 2.0, y + kCellHeight / 2.0 + 4.0, colour.text,
                    cell.value ? fmt::format("{:.4g}", *cell.value) : std::string("-"));
}

}  // namespace

std::string line_plot(const SweepRows& rows, const SweepPlot& plot) {
  if (plot.axes.empty() || rows.empty())
    refuse("a line plot needs an axis", "add --over PATH=VALUE,VALUE,...");
  const GridCells places(rows, plot);
  const double top_value = places.most() > 0.0 ? places.most() * 1.05 : 1.0;
  const std::vector<Line> lines = lines_of(rows, plot, places);
  std::string body = frame(plot, top_value);
  for (std::size_t i = 0; i < lines.size(); ++i) body += drawn(lines[i], i, top_value);
  const double height =
      std::max(kTop + kHeight + 60.0, kTop + 30.0 + 20.0 * static_cast<double>(lines.size()));
  return svg_page({.title = plot.title,
                   .width = kLeft + kWidth + 420.0,
                   .height = height,
                   .body = std::move(body)});
}

std::pair<Axis, Axis> heat_map_axes(std::span<const Axis> axes) {
  std::vector<Axis> varying;
  for (const Axis& axis : axes)
    if (axis.points.size() > 1) varying.push_back(axis);
  if (varying.size() != 2) {
    refuse(fmt::format("a heat map needs two axes with several values, not {}", varying.size()),
           "give two --over (or --zip) with several values each, and fix others with --set");
  }
  return {std::move(varying[0]), std::move(varying[1])};
}

std::string heat_map(const SweepRows& rows, const SweepPlot& plot) {
  const auto [down, right] = heat_map_axes(plot.axes);
  if (rows.empty()) refuse("a heat map needs a run", "give each axis a value");
  const GridCells places(rows, plot);
  std::string body = fmt::format(
      "<text x=\"80\" y=\"48\">{}: lighter is less; struck through: does not fit</text>\n"
      "<text x=\"{:.1f}\" y=\"72\">{}</text>\n<text x=\"20\" y=\"92\">{}</text>\n",
      svg_escaped(plot.metric), kRowTitles, svg_escaped(title_of(right)),
      svg_escaped(title_of(down)));
  for (std::size_t j = 0; j < right.points.size(); ++j) {
    body += fmt::format("<text x=\"{:.1f}\" y=\"92\" text-anchor=\"middle\">{}</text>\n",
                        kRowTitles + kCellWidth * (static_cast<double>(j) + 0.5),
                        svg_escaped(label(right.points[j])));
  }
  for (std::size_t i = 0; i < down.points.size(); ++i) {
    const double y = 102.0 + kCellHeight * static_cast<double>(i);
    body += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                        kRowTitles - 10.0, y + kCellHeight / 2.0 + 4.0,
                        svg_escaped(label(down.points[i])));
    for (std::size_t j = 0; j < right.points.size(); ++j) {
      // The key of a variant depends on the order of its changes, which is that of the axes. An
      // axis with one value has that value.
      Variant variant{.file = rows.front().variant.file};
      for (const Axis& axis : plot.axes) {
        const std::vector<Override>& point = axis.paths == down.paths    ? down.points[i]
                                             : axis.paths == right.paths ? right.points[j]
                                                                         : axis.points.front();
        variant.changes.insert(variant.changes.end(), point.begin(), point.end());
      }
      body += heat_cell(places.at(variant), places,
                        kRowTitles + kCellWidth * static_cast<double>(j), y);
    }
  }
  return svg_page(
      {.title = plot.title,
       .width = kRowTitles + kCellWidth * static_cast<double>(right.points.size()) + 240.0,
       .height = 130.0 + kCellHeight * static_cast<double>(down.points.size()),
       .body = std::move(body)});
}

}  // namespace trainyard
