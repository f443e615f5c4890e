// Charts for pages that know nothing of what they show: curves, bars, a heat map and parallel
// coordinates. Each is a still SVG (the heat map a table) that follows the width of the page:
// places across are percentages, so that texts keep their size. Marks have a `tip`, which the
// script of the page shows at the pointer and to the keyboard.
//
//    XyChart chart{.title = "busbw over size",
//                  .x = log_scale("size", 8, 1e9, 2.0, size_text),
//                  .y = linear_scale("busbw (GB/s)", 480.0)};
//    chart.series.push_back({.name = "ring", .points = {{8, 0.1, "ring, 8 B: 0.1 GB/s"}}});
//    html += xy_chart(chart);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/render/page/elements.hpp"

namespace trainyard {

struct ChartTick {
  double value = 0.0;
  std::string text;
};

struct ChartScale {
  std::string title;
  double least = 0.0;
  double most = 1.0;
  bool logarithmic = false;
  bool listed = false;  // the ticks are values of a list, at equal distances
  std::vector<ChartTick> ticks = {};

  [[nodiscard]] double place(double value) const;  // 0 at `least`, 1 at `most`
};
// From `least` to a little above `most`, with about five ticks.
[[nodiscard]] ChartScale linear_scale(std::string title, double most, double least = 0.0);
// Between powers of `base`. `print` writes a tick.
[[nodiscard]] ChartScale log_scale(std::string title, double least, double most, double base,
                                   const std::function<std::string(double)>& print);
// Value i of a list is at i.
[[nodiscard]] ChartScale listed_scale(std::string title, const std::vector<std::string>& values);

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;
  std::string tip = {};
  bool hollow = false;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points = {};
  bool joined = true;  // by a line
};

struct XyChart {
  std::string title;
  ChartScale x, y;
  std::vector<ChartSeries> series = {};
};
// Series differ in colour, in dashes and in the form of their points.
[[nodiscard]] std::string xy_chart(const XyChart& chart);

struct BarPart {
  std::string name;
  std::string colour;  // "#0072B2"
  double value = 0.0;
  std::string text;  // with its unit; shown in the bar where there is room, and in the tip
};

struct BarRow {
  std::string label;
  std::vector<BarPart> parts = {};
  std::string total = {};  // with its unit, at the end of the row
};
// Bars from parts that follow one another, all rows to one scale, and the meaning of the colours.
// `whole` is the value at the right end; 0: the longest row.
[[nodiscard]] std::string bar_chart(std::string_view title, const std::vector<BarRow>& rows,
                                    double whole = 0.0);

struct HeatCell {
  std::optional<double> value = {};
  std::string text = "-";
  std::string tip = {};
  bool crossed = false;  // struck through
};

struct HeatMap {
  std::string title;
  std::string down_title, right_title;
  std::vector<std::string> down, right;  // values along the two sides
  std::vector<HeatCell> cells = {};      // row by row
};
[[nodiscard]] std::string heat_table(const HeatMap& map);

struct ParallelLine {
  std::vector<double> values = {};  // by axis
  std::string tip = {};
  bool best = false;
  bool dashed = false;
};
// One vertical axis for each scale, and a line across them for each run.
[[nodiscard]] std::string parallel_chart(std::string_view title,
                                         const std::vector<ChartScale>& axes,
                                         const std::vector<ParallelLine>& lines);

// Returns black or white, whichever is easier to read on a colour such as "#0072B2".
[[nodiscard]] std::string_view text_colour_on(std::string_view colour);

}  // namespace trainyard
