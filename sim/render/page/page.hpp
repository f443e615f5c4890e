// A report on one run as one HTML page (document.hpp). It begins with what was simulated and the
// answer; then each section answers a question: what would make it shorter, does it fit, how fast
// is it, what limits it, show me, what does it rest on.
//
//    write_file("report.html", report_page({.view = run.view(), .gains = rows}));
//
// The charts are static SVG, so the page is readable without a script. A script adds a timeline
// that zooms, and values at the pointer.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sim/render/page/document.hpp"
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

// Parts of that page for other pages on a run: what was simulated and the answer; and the memory of
// each stage, whose curves need memory_data().
[[nodiscard]] std::string run_lead(const RunView& view);
[[nodiscard]] PagePart memory_part(const RunView& view);

// Returns the memory curves as JSON: the keys "step_s", "memory" and "categories" of page_data().
[[nodiscard]] nlohmann::json memory_data(const RunView& view);

// Returns the timeline's blocks and the memory curves as JSON, for the script of the page:
//
//    {"step_s": 13.2, "names": [...], "kinds": [{"name", "colour", "text"}],
//     "lanes": [{"title", "streams": [...], "blocks": [[start_ns, length_ns, kind, stream,
//                microbatch, layer, name, operations], ...]}],
//     "memory": [{"title", "capacity_gib", "time_s": [...], "gib": [[...] per category]}],
//     "categories": [{"name", "colour"}], "joined": true}
//
// There are at most about 60,000 blocks. Where there are more operations, those of one kind and
// microbatch are joined ("joined"), and of many stages only some are shown. A memory curve has at
// most 1,000 points; each is the highest of the points that it replaces.
[[nodiscard]] nlohmann::json page_data(const RunView& view);

}  // namespace trainyard
