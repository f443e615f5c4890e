#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "sim/base/units.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "tools/studies/batch/row.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {

namespace {

// Fields that vary in a sweep. Fields that always change together are one of these.
struct Varying {
  std::string title;                     // "tensor + data"
  std::vector<std::string> values = {};  // each once, in the order of the rows
  std::vector<std::size_t> at = {};      // index into `values`, by row
};

Varying varying_of(const SweepRows& rows, const std::string& title, const std::string& path) {
  Varying field{.title = title};
  for (const SweepRow& row : rows) {
    const std::string value = changed_value(row.variant, path);
    const auto found = std::ranges::find(field.values, value);
    field.at.push_back(static_cast<std::size_t>(found - field.values.begin()));
    if (found == field.values.end()) field.values.push_back(value);
  }
  return field;
}

// Adds a field that changes with `all` to it.
void join(Varying& all, const Varying& field) {
  all.title += " + " + field.title;
  for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] += " + " + field.values[i];
}

std::vector<Varying> varying_fields(const SweepRows& rows) {
  const std::vector<std::string> paths = changed_paths(rows);
  std::vector<Varying> fields;
  for (const std::string& path : paths) {
    Varying field = varying_of(rows, short_name(path, paths), path);
    if (field.values.size() < 2) continue;
    // Equal indices in every row: the fields change together, such as tensor=2,4 with data=4,2, and
    // one axis shows both.
    const auto same = std::ranges::find(fields, field.at, &Varying::at);
    if (same != fields.end()) {
      join(*same, field);
    } else {
      fields.push_back(std::move(field));
    }
  }
  return fields;
}

std::string metric_text(const std::string& metric, double value) {
  if (metric == "mfu" || metric == "hfu" || metric.ends_with("fraction"))
    return fmt::format("{:.1f} %", 100.0 * value);
  if (metric.ends_with("bytes")) return to_text(Bytes{value});
  if (metric.ends_with("_s")) return to_text(Seconds{value});
  return fmt::format("{:.4g}", value);
}

struct Run {
  std::optional<double> metric;
  RowFigures figures;
  std::string name;  // the values of the fields
};

std::string tip_of(const Run& run, const std::string& metric) {
  std::string text = run.name;
  if (run.metric) text += fmt::format("\n{}: {}", metric, metric_text(metric, *run.metric));
  if (!run.figures.ran)
    return fmt::format("{}\n{}", text, word_for(kRunStatus, run.figures.status));
  if (metric != "step_time_s") text += "\nstep time: " + to_text(Seconds{run.figures.step_time_s});
  text += "\npeak memory: " + to_text(Bytes{run.figures.peak_bytes});
  if (run.figures.status == RunStatus::Fits) return text;
  return fmt::format("{}\n{}", text, "does not fit");
}

std::vector<Run> runs_of(const SweepRows& rows, const std::vector<Varying>& fields,
                         const std::string& metric) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Run& run = runs.emplace_back();
    for (const Varying& field : fields)
      run.name += fmt::format("{}{} {}", run.name.empty() ? "" : ", ", field.title,
                              field.values[field.at[i]]);
    if (rows[i].row.is_null()) continue;
    run.figures = row_figures(rows[i].row);
    run.metric = row_number(rows[i].row, metric);
  }
  return runs;
}

// The metric with its unit, in which the axis counts.
struct MetricAxis {
  std::string title;
  double factor = 1.0;
};
MetricAxis metric_axis(const std::string& metric) {
  if (metric == "step_time_s") return {"step time (s)"};
  if (metric == "mfu" || metric == "hfu") return {metric == "mfu" ? "MFU (%)" : "HFU (%)", 100.0};
  if (metric == "peak_bytes") return {"peak memory (GiB)", 1.0 / 1073741824.0};
  return {metric};
}

// A curve over the first field, one for each value of the second if there are two.
std::string curves(const std::vector<Varying>& fields, const std::vector<Run>& runs,
                   const std::string& metric) {
  const MetricAxis axis = metric_axis(metric);
  double most = 0.0;
  std::map<std::size_t, ChartSeries> series;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].metric) continue;
    const std::size_t number = fields.size() > 1 ? fields[1].at[i] : 0;
    const double value = *runs[i].metric * axis.factor;
    ChartSeries& one = series[number];
    one.name = fields.size() > 1 ? fields[1].title + " " + fields[1].values[number] : axis.title;
    one.points.push_back({static_cast<double>(fields[0].at[i]), value, tip_of(runs[i], metric),
                          runs[i].figures.status != RunStatus::Fits});
    most = std::max(most, value);
  }
  XyChart chart{.title = fmt::format("{} over {}", axis.title, fields[0].title),
                .x = listed_scale(fields[0].title, fields[0].values),
                .y = linear_scale(axis.title, most)};
  for (auto& [number, one] : series) {
    std::ranges::stable_sort(one.points, {}, &ChartPoint::x);
    chart.series.push_back(std::move(one));
  }
  return xy_chart(chart);
}

std::string heat(const std::vector<Varying>& fields, const std::vector<Run>& runs,
                 const std::string& metric) {
  HeatMap map{.title = metric + ": a stronger colour is more; struck through: does not fit",
              .down_title = fields[0].title,
              .right_title = fields[1].title,
              .down = fields[0].values,
              .right = fields[1].values};
  map.cells.resize(map.down.size() * map.right.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    HeatCell& cell = map.cells[fields[0].at[i] * map.right.size() + fields[1].at[i]];
    cell.tip = tip_of(runs[i], metric);
    if (!runs[i].metric) continue;
    cell.value = *runs[i].metric;
    cell.text = metric_text(metric, *cell.value);
    cell.crossed = runs[i].figures.status != RunStatus::Fits;
  }
  return heat_table(map);
}

std::string parallel(const SweepRows& rows, const std::vector<Varying>& fields,
                     const std::vector<Run>& runs, const std::string& metric) {
  const MetricAxis axis = metric_axis(metric);
  constexpr double kGib = 1073741824.0;
  double most = 0.0, most_gib = 0.0;
  for (const Run& run : runs) {
    most = std::max(most, run.metric.value_or(0.0) * axis.factor);
    most_gib = std::max(most_gib, run.figures.peak_bytes / kGib);
  }
  std::vector<ChartScale> axes;
  for (const Varying& field : fields) axes.push_back(listed_scale(field.title, field.values));
  if (metric != "peak_bytes") axes.push_back(linear_scale("peak memory (GiB)", most_gib));
  axes.push_back(linear_scale(axis.title, most));
  const SweepRow* best = quickest_run(rows);
  std::vector<ParallelLine> lines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].metric) continue;
    ParallelLine& line =
        lines.emplace_back(ParallelLine{.tip = tip_of(runs[i], metric),
                                        .best = &rows[i] == best,
                                        .dashed = runs[i].figures.status != RunStatus::Fits});
    for (const Varying& field : fields) line.values.push_back(static_cast<double>(field.at[i]));
    if (metric != "peak_bytes") line.values.push_back(runs[i].figures.peak_bytes / kGib);
    line.values.push_back(*runs[i].metric * axis.factor);
  }
  return html_paragraph(
             "A line is a run; the thick one is the quickest that fits, a dashed one "
             "does not fit.") +
         parallel_chart(metric + " over the fields that vary", axes, lines);
}

// One field needs a curve, and two a heat map with curves. More do not fit into a plane, so each
// gets an axis of its own.
std::string charts(const SweepRows& rows, const std::string& metric) {
  const std::vector<Varying> fields = varying_fields(rows);
  const std::vector<Run> runs = runs_of(rows, fields, metric);
  if (fields.empty() ||
      std::ranges::none_of(runs, [](const Run& run) { return run.metric.has_value(); }))
    return "";
  const bool all_fit = std::ranges::all_of(
      runs, [](const Run& run) { return run.figures.status == RunStatus::Fits; });
  if (fields.size() > 2) return parallel(rows, fields, runs, metric);
  return (fields.size() == 2 ? heat(fields, runs, metric) : std::string()) +
         curves(fields, runs, metric) +
         html_paragraph(all_fit ? "" : "A hollow point does not fit.");
}

std::string answer(const SweepRows& rows) {
  const SweepRow* best = quickest_run(rows);
  if (best == nullptr) return html_verdict("No run fits.", false);
  const std::vector<std::string> paths = changed_paths(rows);
  std::string settings;
  for (const std::string& path : paths)
    settings += fmt::format("{}{} {}", settings.empty() ? "" : ", ", short_name(path, paths),
                            changed_value(best->variant, path));
  const RowFigures figures = row_figures(best->row);
  std::vector<PageCard> cards{{"step time", to_text(Seconds{figures.step_time_s})}};
  if (figures.mfu) cards.push_back({"MFU", fmt::format("{:.1f} %", 100.0 * *figures.mfu)});
  cards.push_back({"peak memory", to_text(Bytes{figures.peak_bytes})});
  if (figures.capacity_bytes > 0.0)
    cards.back().notes.push_back("of " + to_text(Bytes{figures.capacity_bytes}));
  return html_verdict("The quickest run that fits: " + settings, true) + html_cards(cards);
}

}  // namespace

std::string sweep_page(const SweepRows& rows, const std::string& metric) {
  const std::string file = rows.empty() ? "" : rows.front().variant.file;
  std::vector<PageFact> facts{{"scenario", file}};
  std::vector<const nlohmann::ordered_json*> results;
  for (const SweepRow& row : rows) results.push_back(&row.row);
  for (const auto& [name, text] : shared_setup(results)) facts.push_back({name, text});
  std::string varied;
  for (const Varying& field : varying_fields(rows))
    varied += fmt::format("{}{} ({} values)", varied.empty() ? "" : ", ", field.title,
                          field.values.size());
  if (!varied.empty()) facts.push_back({"varied", varied});
  facts.push_back({"runs", sweep_counts(rows)});
  return page_document(
      {.title = "Sweep of " + std::filesystem::path(file).stem().string(),
       .lead = html_facts(facts) + answer(rows),
       .parts = {{"fields", "What do the fields change?", charts(rows, metric)},
                 {"runs", "All runs", html_table(sweep_table(rows))},
                 {"failed", "Why is there no result?", html_list(sweep_reasons(rows))}}});
}

}  // namespace trainyard
