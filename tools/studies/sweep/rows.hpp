// The rows of a sweep in the order in which it was asked: as a table, as CSV, and as pictures of
// lines over one axis or a heat map over two.
//
//   SweepRows rows = sweep_rows(variants, journal);
//   fmt::print("{}", sweep_text(rows));
//   write_file("sweep.csv", sweep_csv(rows));
//   write_file("lines.svg", line_plot(rows, {.axes = axes, .metric = "step_time_s"}));
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

struct SweepRow {
  Variant variant;
  nlohmann::ordered_json row;  // of the journal; null: not run yet
};
using SweepRows = std::vector<SweepRow>;

// Each variant once, with its row.
[[nodiscard]] SweepRows sweep_rows(const std::vector<Variant>& variants, const Journal& journal);

// A line for each run: what was changed, step time, tokens/s/GPU, MFU, peak memory, whether it
// fits; the quickest that fits is marked. Then how many runs ended how, and why those without a
// result have none.
[[nodiscard]] std::string sweep_text(const SweepRows& rows);

// One line for each run that is done and one column for every change, input and figure that any of
// them has; empty where it has none. RFC 4180.
[[nodiscard]] std::string sweep_csv(const SweepRows& rows);

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
