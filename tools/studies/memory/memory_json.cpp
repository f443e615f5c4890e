#include <nlohmann/json.hpp>

#include "sim/report/stage_summary.hpp"
#include "tools/studies/memory/memory_report.hpp"
#include "tools/studies/memory/rule_of_thumb.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// By category: bytes at each time of the curve.
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

}  // namespace trainyard
