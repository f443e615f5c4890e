// Bus bandwidth over size as an SVG picture: both axes logarithmic, a legend, units; readable in
// any browser.
//
//   write_file("busbw.svg", svg_plot({.title = "all_reduce", .series = series_of(study,
//   nullptr)}));
#pragma once

#include <string>
#include <vector>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct PlotPoint {
  double bytes = 0.0;
  double busbw = 0.0;  // bytes/s
};

struct PlotSeries {
  std::string name = {};
  std::vector<PlotPoint> points = {};
  bool dashed = false;
  bool measured = false;  // circles without a line
};

struct SvgPlot {
  std::string title = {};
  std::vector<PlotSeries> series = {};
};

// One line for each algorithm that runs, and the measured points where there are some.
[[nodiscard]] std::vector<PlotSeries> series_of(const CollectiveStudy& study,
                                                const MeasuredTimes* measured);
// Of groups that run at once: alone (dashed) and together, for each kind of group.
[[nodiscard]] std::vector<PlotSeries> series_of(const InterferenceStudy& study);

// A complete document, also without any point.
[[nodiscard]] std::string svg_plot(const SvgPlot& plot);

}  // namespace trainyard
