// The rows of a sweep in the order of its variants: as a table, as CSV, as plots (lines over one
// axis, or a heat map over two), and as a page.
//
//    SweepRows rows = sweep_rows(variants, journal);
//    fmt::print("{}", sweep_text(rows));
//    write_file("sweep.csv", sweep_csv(rows));
//    write_file("lines.svg", line_plot(rows, {.axes = axes, .metric = "step_time_s"}));
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/render/text_table.hpp"
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

// A table with one line for each run: the changed fields, step time, tokens/s/GPU, MFU, peak
// memory, whether it fits. The quickest run that fits is marked. The number of runs by status
// follows, and the reasons of those without a result.
[[nodiscard]] std::string sweep_text(const SweepRows& rows);

// The table of sweep_text(), the number of runs by status ("12 runs: 10 fit, 2 do not fit"), and
// each reason for a run without a result, with the number of these runs.
[[nodiscard]] TextTable sweep_table(const SweepRows& rows);
[[nodiscard]] std::string sweep_counts(const SweepRows& rows);
[[nodiscard]] std::vector<std::string> sweep_reasons(const SweepRows& rows);

// The changed paths in the order in which variants first name them.
[[nodiscard]] std::vector<std::string> changed_paths(const SweepRows& rows);
// The last part of a path if no other path has the same last part, else the whole path.
[[nodiscard]] std::string short_name(const std::string& path,
                                     const std::vector<std::string>& paths);
// The value of a path in a variant; "-" if the variant does not change it.
[[nodiscard]] std::string changed_value(const Variant& variant, const std::string& path);
// The quickest run that fits; nullptr if there is none.
[[nodiscard]] const SweepRow* quickest_run(const SweepRows& rows);

// One line for each finished run and one column for every change, input and figure that any of them
// has. A cell is empty if the run does not have the value. RFC 4180.
[[nodiscard]] std::string sweep_csv(const SweepRows& rows);

struct SweepPlot {
  std::string title;
  std::span<const Axis> axes;
  // A number of the result by its flattened path: "step_time_s", "mfu", "peak_bytes", ...
  std::string metric = "step_time_s";
  std::size_t common = 0;  // changes of every variant before those of the axes
};

// The metric over the first axis, one line for each combination of the others, as an SVG document.
// The values of the axis are drawn at equal distances, in their order. Runs without the metric
// leave a gap, and runs that do not fit are hollow. Throws InputError without an axis or a row, and
// if no run has the metric.
[[nodiscard]] std::string line_plot(const SweepRows& rows, const SweepPlot& plot);

// The two axes with several values. Throws InputError if there are fewer or more of them.
[[nodiscard]] std::pair<Axis, Axis> heat_map_axes(std::span<const Axis> axes);

// The sweep as one HTML page that opens from disk: the quickest run, the metric over the fields
// that vary (a curve over one, a heat map over two, parallel coordinates over more), and all runs
// as a table that sorts.
[[nodiscard]] std::string sweep_page(const SweepRows& rows, const std::string& metric);

// A heat map of the axes with several values: the first one downwards, the second one to the right,
// and the metric as colour and number. Runs that do not fit are crossed by a diagonal line. Throws
// InputError as heat_map_axes() does, and without a row.
[[nodiscard]] std::string heat_map(const SweepRows& rows, const SweepPlot& plot);

}  // namespace trainyard
