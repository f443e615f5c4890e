// Bus bandwidth over size as a chart: in characters for a terminal, or as an SVG picture. Both axes
// are logarithmic.
//
//   say("{}", plot_text(study, {.columns = 64, .lines = 20}));
//   write_file("busbw.svg", svg_plot({.title = "all_reduce", .series = series_of(study,
//   nullptr)}));
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

// The first letter of its name that is still free, else any that is; by algorithm.
[[nodiscard]] std::string plot_letters(const CollectiveStudy& study);

// '*' where several meet. Empty where no algorithm has rows.
[[nodiscard]] std::string plot_text(const CollectiveStudy& study, const PlotArea& area);

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
// The series of groups that run at once: alone (dashed) and together, for each kind of group.
[[nodiscard]] std::vector<PlotSeries> series_of(const InterferenceStudy& study);

// A complete document, also without any point.
[[nodiscard]] std::string svg_plot(const SvgPlot& plot);

}  // namespace trainyard
