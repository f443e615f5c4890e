// One run as one page: a file that opens from disk, offline, in light and dark, on paper and on a
// phone.
//
//   write_file("report.html", report_page({.view = run.view(), .gains = rows}));
//
// Charts are SVG, drawn here, so that the page needs no script to be read. A script adds what paper
// cannot: a timeline that zooms, and, where uPlot was within reach when Trainyard was built, memory
// curves that tell their values under the pointer.
#pragma once

#include <span>
#include <string>

#include "sim/report/run_view.hpp"

namespace trainyard {

// The step as one change would make it.
struct PageGain {
  std::string name;  // "GEMMs twice as fast"
  double step_time_s = 0.0;
  double saving = 0.0;  // of the step; 0.1: 10 % shorter
};

struct PageRequest {
  RunView view;
  std::span<const PageGain> gains = {};  // the largest first; empty: the page has no such section
};
// The HTML document.
[[nodiscard]] std::string report_page(const PageRequest& request);

// "uPlot 1.6.32", or empty where pages are built without.
[[nodiscard]] std::string page_chart_library();

}  // namespace trainyard
