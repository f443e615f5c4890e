// A report on one run as one HTML page. The file opens from disk without a network, in light and
// dark mode, on paper and on a phone.
//
//    write_file("report.html", report_page({.view = run.view(), .gains = rows}));
//
// The charts are static SVG, so the page is readable without a script. A script adds a timeline
// that zooms and, if uPlot was available when Trainyard was built, memory curves that show values
// under the pointer.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sim/report/run_view.hpp"

namespace trainyard {

// The predicted step after one what-if change.
struct PageGain {
  std::string name;  // "GEMMs twice as fast"
  double step_time_s = 0.0;
  double saving = 0.0;  // share of the step; 0.1: 10 % shorter
};

struct PageRequest {
  RunView view;
  std::span<const PageGain> gains = {};  // largest saving first; empty: the page omits the section
};
// Returns the HTML document.
[[nodiscard]] std::string report_page(const PageRequest& request);

// Returns the timeline's blocks and the memory curves as JSON, for the script of the page:
//
//    {"step_s": 13.2, "names": [...], "kinds": [{"name", "colour"}],
//     "lanes": [{"title", "streams": [...], "blocks": [[start_ns, length_ns, kind, stream,
//                microbatch, layer, name, operations], ...]}],
//     "memory": [{"title", "capacity_gib", "time_s": [...], "gib": [[...] per category]}],
//     "categories": [{"name", "colour"}], "joined": true}
//
// There are at most about 60,000 blocks. Where there are more operations, those of one kind and
// microbatch are joined ("joined"), and of many stages only some are shown. A memory curve has at
// most 1,000 points; each is the highest of the points that it replaces.
[[nodiscard]] nlohmann::json page_data(const RunView& view);

// Style and script of a page, and those of uPlot if it was available to the build. CMake generates
// them from assets/ (assets.cpp.in).
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
// Empty in a build without uPlot: the page then has only its static charts.
[[nodiscard]] std::string_view chart_library_style();
[[nodiscard]] std::string_view chart_library_script();

}  // namespace trainyard
