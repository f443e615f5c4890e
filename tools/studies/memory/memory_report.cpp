#include "tools/studies/memory/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "sim/base/check.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/page.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

RuleOfThumb rule_of_thumb(double parameters, double gpu_gigabytes) {
  TY_CHECK(gpu_gigabytes > 0.0, gpu_gigabytes);
  // State in bf16 with fp32 gradients takes 18 bytes per parameter
  // (models/architecture/memory.hpp); activations add a quarter.
  constexpr double kBytesPerParameter = 18.0;
  constexpr double kActivations = 1.25;
  const double gpus = parameters / 1e9 * kBytesPerParameter * kActivations / gpu_gigabytes;
  return {.gpus = gpus, .whole_gpus = static_cast<std::int64_t>(std::ceil(gpus))};
}

namespace {

constexpr double kGib = 1073741824.0;

// The rule of thumb as one line, "rule of thumb: ...". `gpu_memory` is in usable bytes; 80 GiB are
// sold as 80 GB.
std::string rule_of_thumb_line(const TrainingPlan& plan, Bytes gpu_memory) {
  const auto parameters = static_cast<double>(parameter_count(plan.architecture));
  const double gigabytes = std::round(gpu_memory.value() / kGib);
  if (gigabytes <= 0.0) return "";
  const RuleOfThumb rule = rule_of_thumb(parameters, gigabytes);
  return fmt::format(
      "rule of thumb: {:.1f} billion parameters x 18 bytes x 1.25 / {:.0f} GB = {:.1f}, so {} "
      "GPUs; this plan has {}\n",
      parameters / 1e9, gigabytes, rule.gpus, rule.whole_gpus, plan.world());
}

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

std::int64_t sum(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// The most that the stage holds in each of `columns` equal parts of the step. Each point of the
// curve holds until the next one, so it counts in every column between them.
std::vector<std::int64_t> peaks_over_time(const RunView& view, std::uint32_t rank_class,
                                          std::size_t columns) {
  const auto curve = view.memory_curve_of(rank_class);
  const double step_s = view.timeline.makespan_s;
  std::vector<std::int64_t> peaks(columns, 0);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double end_s = i + 1 < curve.size() ? curve[i + 1].time_s : step_s;
    const auto column = [&](double time_s) {
      const double part = step_s > 0.0 ? time_s / step_s : 0.0;
      return std::min(columns - 1, static_cast<std::size_t>(part * static_cast<double>(columns)));
    };
    for (std::size_t at = column(curve[i].time_s); at <= column(end_s); ++at)
      peaks[at] = std::max(peaks[at], sum(curve[i].by_category));
  }
  return peaks;
}

// Memory over time as one digit for each part of the step: tenths of the GPU's memory, '!' above
// it.
std::string over_time(const RunView& view) {
  constexpr std::size_t kColumns = 80;
  std::string text = "Memory over the step, in tenths of the GPU's (! is more than it has)\n";
  for (const StageMemory& stage : stage_memory(view)) {
    if (stage.capacity_bytes <= 0) return "";
    std::string line;
    for (const std::int64_t bytes : peaks_over_time(view, stage.rank_class, kColumns)) {
      const std::int64_t tenth = bytes * 10 / stage.capacity_bytes;
      line += bytes > stage.capacity_bytes
                  ? '!'
                  : static_cast<char>('0' + std::min<std::int64_t>(tenth, 9));
    }
    text += fmt::format("  stage {:>3}  {}\n", stage.stage, line);
  }
  return text;
}

std::string categories(const RunView& view) {
  std::vector<std::string> titles{"GiB at the peak"};
  const std::vector<StageMemory> stages = stage_memory(view);
  std::vector<std::size_t> shown;
  for (std::size_t category = 0; category < view.workload.categories.size(); ++category) {
    const bool used = std::any_of(stages.begin(), stages.end(), [&](const StageMemory& stage) {
      return stage.peak.by_category[category] > 0;
    });
    if (!used) continue;
    shown.push_back(category);
    titles.push_back(view.workload.categories[category]);
  }
  TextTable table(titles);
  for (const StageMemory& stage : stages) {
    std::vector<std::string> cells{fmt::format("stage {}", stage.stage)};
    for (const std::size_t category : shown) {
      cells.push_back(
          fmt::format("{:.2f}", static_cast<double>(stage.peak.by_category[category]) / kGib));
    }
    table.row(std::move(cells));
  }
  return table.text();
}

constexpr std::size_t kShown = 8;

// Each way takes two lines: its figures under the titles, and its changes, which may be long. GPU
// time is step time x GPUs, because a change may double the GPUs.
std::string way_table(const FitSearch& search, const std::vector<WayToFit>& ways) {
  TextTable table({"peak", "frees", "step", "against now", "GPU time"});
  const FitFigures& now = search.now;
  for (const WayToFit& way : ways) {
    const FitFigures& figures = way.figures;
    // The lower bound excludes this change, so it was not simulated and has no step time.
    if (!way.simulated) {
      table.row({"over " + bytes_text(figures.peak_bytes), "", "", "", ""});
      continue;
    }
    table.row({bytes_text(figures.peak_bytes), bytes_text(now.peak_bytes - figures.peak_bytes),
               to_text(Seconds{figures.step_time_s}),
               signed_percent(figures.step_time_s / now.step_time_s - 1.0),
               signed_percent(figures.gpu_seconds() / now.gpu_seconds() - 1.0)});
  }
  // The table is formatted as a whole for its column widths; then its lines alternate with the
  // changes.
  std::istringstream lines(table.text());
  std::string text;
  std::string line;
  std::getline(lines, line);
  text += line + "\n";
  for (const WayToFit& way : ways) {
    std::getline(lines, line);
    text += line + "\n" + wrapped("      " + to_text(way.changes), 6);
  }
  return text;
}

std::string ways(const FitSearch& search) {
  if (search.ways.empty()) {
    return fmt::format(
               "Nothing that was tried fits ({} simulations, up to {} changes at once). Alone:\n",
               search.runs, search.changes_at_once) +
           way_table(search, search.singles);
  }
  const std::size_t shown = std::min(kShown, search.ways.size());
  const std::size_t others = search.ways.size() - shown;
  const auto first = search.ways.begin();
  return fmt::format("What fits, with {} at once ({} simulations)\n",
                     search.changes_at_once == 1
                         ? std::string("one change")
                         : fmt::format("{} changes", search.changes_at_once),
                     search.runs) +
         way_table(search, {first, first + static_cast<std::ptrdiff_t>(shown)}) +
         (others > 0 ? fmt::format("  and {} more (--json)\n", others) : "");
}

}  // namespace

std::string memory_text(const MemoryReport& report) {
  const RunView view = report.run.view();
  std::string text = verdict_line(view);
  text += rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory);
  text += "\n" + memory_section(view) + "\n" + categories(view) + "\n" + over_time(view);
  if (report.search) text += "\n" + ways(*report.search);
  return text;
}

namespace {

using Json = nlohmann::ordered_json;

// The memory curve of a stage: for each category the bytes at each time of the curve.
Json curve_json(const RunView& view, const StageMemory& stage) {
  Json times = Json::array();
  std::vector<Json> columns(view.workload.categories.size(), Json::array());
  for (const MemoryPoint& point : view.memory_curve_of(stage.rank_class)) {
    times.push_back(point.time_s);
    for (std::size_t category = 0; category < columns.size(); ++category)
      columns[category].push_back(point.by_category[category]);
  }
  Json bytes = Json::object();
  for (std::size_t category = 0; category < columns.size(); ++category)
    bytes[view.workload.categories[category]] = std::move(columns[category]);
  return {{"time_s", std::move(times)}, {"by_category_bytes", std::move(bytes)}};
}

Json stages_json(const RunView& view) {
  Json rows = Json::array();
  for (const StageMemory& stage : stage_memory(view)) {
    Json composition = Json::object();
    for (std::size_t category = 0; category < stage.peak.by_category.size(); ++category)
      composition[view.workload.categories[category]] = stage.peak.by_category[category];
    rows.push_back({{"stage", stage.stage},
                    {"peak_bytes", stage.peak.bytes},
                    {"peak_at_s", stage.peak.at_s},
                    {"peak_operation", peak_operation(view, stage)},
                    {"by_category_bytes", std::move(composition)},
                    {"fits", stage.capacity_bytes > 0 ? Json(stage.fits) : Json(nullptr)},
                    {"curve", curve_json(view, stage)}});
    if (!stage.gpu.empty()) rows.back()["gpu"] = stage.gpu;
  }
  return rows;
}

Json ways_json(const std::vector<WayToFit>& ways) {
  Json rows = Json::array();
  for (const WayToFit& way : ways) {
    Json changes = Json::object();
    for (const Override& change : way.changes) changes[change.path] = change.value;
    const FitFigures& figures = way.figures;
    Json row{{"changes", std::move(changes)}, {"peak_bytes", figures.peak_bytes},
             {"step_time_s", nullptr},        {"gpus", nullptr},
             {"fits", figures.fits},          {"simulated", way.simulated}};
    if (way.simulated) {
      row["step_time_s"] = figures.step_time_s;
      row["gpus"] = figures.gpus;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json memory_json(const MemoryReport& report) {
  const RunView view = report.run.view();
  const double capacity = view.facts.gpu_memory.value();
  Json json{{"title", view.facts.title},
            {"step_time_s", view.step_s()},
            {"capacity_bytes", capacity > 0.0 ? Json(capacity) : Json(nullptr)},
            {"rule_of_thumb", rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory)},
            {"stages", stages_json(view)}};
  if (report.search) {
    json["simulations"] = report.search->runs;
    json["ways_to_fit"] = ways_json(report.search->ways);
    json["single_changes"] = ways_json(report.search->singles);
  }
  return json;
}

namespace {

std::string ways_table(const FitSearch& search) {
  if (search.ways.empty()) return html_paragraph("Nothing that was tried fits.");
  TextTable table({"change", "peak", "step", "against now", "GPU time"});
  const FitFigures& now = search.now;
  for (const WayToFit& way : search.ways) {
    const FitFigures& figures = way.figures;
    table.row({to_text(way.changes), bytes_text(figures.peak_bytes),
               to_text(Seconds{figures.step_time_s}),
               signed_percent(figures.step_time_s / now.step_time_s - 1.0),
               signed_percent(figures.gpu_seconds() / now.gpu_seconds() - 1.0)});
  }
  return html_table(table);
}

}  // namespace

std::string memory_page(const MemoryReport& report) {
  const RunView view = report.run.view();
  return page_document(
      {.title = "Memory: " + view.facts.title,
       .lead = run_lead(view) +
               html_paragraph(rule_of_thumb_line(report.scenario.plan, view.facts.gpu_memory)),
       .parts = {{"ways", "What would fit?", report.search ? ways_table(*report.search) : ""},
                 memory_part(view)},
       .data = memory_data(view)});
}

}  // namespace trainyard
