// A sweep as pictures: lines over one axis, or a heat map over two.
//
//   write_file("lines.svg", line_plot(rows, {.axes = axes, .metric = "step_time_s"}));
#pragma once

#include <span>
#include <string>

#include "tools/studies/sweep/grid.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {

struct SweepPlot {
  std::string title;
  std::span<const Axis> axes;
  // A number of the result by its flattened path: "step_time_s", "mfu", "peak_bytes", ...
  std::string metric = "step_time_s";
};

// The metric over the first axis, one line for each combination of the others. Values along the
// axis stand at equal distances, in their order. Runs without the metric leave a gap; what does not
// fit is hollow. An SVG document. Throws InputError without an axis and where no run has the
// metric.
[[nodiscard]] std::string line_plot(const SweepRows& rows, const SweepPlot& plot);

// The first axis downwards, the second to the right, the metric as colour and number; what does not
// fit is hatched. REQUIRES nothing; throws InputError unless exactly two axes have several values.
[[nodiscard]] std::string heat_map(const SweepRows& rows, const SweepPlot& plot);

}  // namespace trainyard
