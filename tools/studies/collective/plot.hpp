// Bus bandwidth over size, or over nodes, as a chart: in characters for a terminal, or as an SVG
// picture. Both axes are logarithmic.
//
//    say("{}", plot_text(study, {.columns = 64, .lines = 20}));
//    write_file("busbw.svg",
//               svg_plot({.title = "all_reduce", .series = series_of(study, nullptr)}));
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct PlotArea {
  std::size_t columns = 64;
  std::size_t lines = 18;
};

// One letter for each algorithm: the first letter of its name that is not taken yet, else any
// letter that is not taken.
[[nodiscard]] std::string plot_letters(const CollectiveStudy& study);

// The chart in characters, with '*' where several algorithms share a cell. The result is empty if
// no algorithm has rows.
[[nodiscard]] std::string plot_text(const CollectiveStudy& study, const PlotArea& area);

struct PlotPoint {
  double x = 0.0;      // bytes, or nodes
  double busbw = 0.0;  // bytes/s
};

struct PlotSeries {
  std::string name = {};
  std::vector<PlotPoint> points = {};
  bool dashed = false;
  bool measured = false;  // drawn as circles without a line
};

enum class PlotAxis { Size, Nodes };

struct SvgPlot {
  std::string title = {};
  PlotAxis axis = PlotAxis::Size;  // what PlotPoint::x counts
  std::vector<PlotSeries> series = {};
};

// One series for each algorithm that runs, and the measured points if there are any.
[[nodiscard]] std::vector<PlotSeries> series_of(const CollectiveStudy& study,
                                                const MeasuredTimes* measured);
// The series of groups that run at the same time: alone (dashed) and together, for each kind of
// group.
[[nodiscard]] std::vector<PlotSeries> series_of(const InterferenceStudy& study);

// A complete SVG document, even if there is no point.
[[nodiscard]] std::string svg_plot(const SvgPlot& plot);

}  // namespace trainyard
