// One run as one page: a file that opens from disk, offline, in light and dark, on paper and on a
// phone.
//
//   write_file("report.html", report_page({.view = run.view(), .gains = rows}));
//
// Charts are SVG, drawn here, so that the page needs no script to be read. A script adds what paper
// cannot: a timeline that zooms, and, where uPlot was within reach when Trainyard was built, memory
// curves that tell their values under the pointer.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

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

// The timeline's blocks and the memory curves as JSON, for the script of the page:
//
//   {"step_s": 13.2, "names": [...], "kinds": [{"name", "colour"}],
//    "lanes": [{"title", "streams": [...], "blocks": [[start_ns, length_ns, kind, stream,
//               microbatch, layer, name, operations], ...]}],
//    "memory": [{"title", "capacity_gib", "time_s": [...], "gib": [[...] per category]}],
//    "categories": [{"name", "colour"}], "joined": true}
//
// At most about 60,000 blocks: where there are more operations, those of one kind and microbatch
// are joined ("joined"), and of very many stages some are shown. Memory curves have at most 1,000
// points each, the highest of what each stands for.
[[nodiscard]] nlohmann::json page_data(const RunView& view);

// Style and script of a page, and those of uPlot where it was within reach of the build; CMake
// makes them from assets/ (assets.cpp.in).
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
// Empty where the build had no uPlot: pages then keep to their still pictures.
[[nodiscard]] std::string_view chart_library_style();
[[nodiscard]] std::string_view chart_library_script();

}  // namespace trainyard
