#include "sim/report/result_json.hpp"

#include <cmath>

#include "sim/base/check.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"
#include "sim/timeline/breakdown.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// An unknown value is null, not zero.
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// The version of the result's format. It increases whenever a key of the result is renamed or
// removed. CHANGELOG.md lists the renamed keys.
constexpr int kResultFormat = 3;

Json own_files_json(const RunFacts& facts) {
  Json files = Json::array();
  for (const OwnDataFile& own : facts.own_files) {
    files.push_back({{"kind", own.kind},
                     {"name", own.name},
                     {"file", own.file},
                     {"replaces_shipped", own.replaces}});
  }
  return files;
}

Json provenance_json(const RunFacts& facts) {
  Json json = {{"version", TRAINYARD_VERSION},
               {"format", kResultFormat},
               {"engine", facts.engine},
               {"engine_version", text_or_null(facts.engine_version)},
               {"seed", facts.seed}};
  if (!facts.own_files.empty()) json["data_files"] = own_files_json(facts);
  if (facts.wall_s) json["wall_s"] = *facts.wall_s;
  if (facts.peak_rss_bytes) json["peak_rss_bytes"] = *facts.peak_rss_bytes;
  return json;
}

Json fold_json(const RunView& view) {
  Json json = {{"ranks", view.workload.ranks.size()},
               {"classes", view.partition.ranks.size()},
               {"operations", view.timeline.counters.operations},
               {"engine_activities", view.timeline.counters.activities},
               {"contracted_regions", view.timeline.counters.regions},
               {"events", view.timeline.counters.events},
               {"repeated_operations", view.timeline.counters.repeated}};
  if (!view.fold_reasons.empty()) json["rank_classes"] = rank_classes_json(view);
  return json;
}

Json approximations_json(const RunFacts& facts) {
  Json json = Json::object();
  for (const Approximation& approximation : facts.approximations) {
    json[approximation.name] = {{"count", approximation.count},
                                {"sentence", approximation.sentence}};
  }
  return json;
}

Json published_json(const RunFacts& facts) {
  if (facts.published.empty()) return nullptr;
  Json figures = Json::array();
  for (const PublishedComparison& row : facts.published) {
    figures.push_back({{"figure", row.figure},
                       {"title", row.title},
                       {"unit", row.unit},
                       {"published", row.published},
                       {"predicted", row.predicted},
                       {"difference", row.error()}});
  }
  return {{"source", facts.published_source},
          {"note", text_or_null(facts.published_note)},
          {"figures", std::move(figures)}};
}

Json training_json(const TrainingTotal& total) {
  return {{"tokens", total.tokens},
          {"days", total.days},
          {"gpu_hours", total.gpu_hours},
          {"cost", or_null(total.cost)}};
}

// A capacity that is not known is null, and nothing is known about fitting then.
Json host_memory_json(const HostMemory& host) {
  const bool bounded = host.capacity_bytes > 0;
  return {{"bytes", host.bytes},
          {"capacity_bytes", bounded ? Json(host.capacity_bytes) : Json(nullptr)},
          {"fits", bounded ? Json(host.fits) : Json(nullptr)}};
}

Json utilisation_json(const Figures& key) {
  Json rows = Json::array();
  for (const Utilisation& row : key.utilisation) {
    rows.push_back({{"attention", row.attention},
                    {"peak", row.peak.precision},
                    {"peak_tflops_per_gpu", row.peak.rate.value() / 1e12},
                    {"mfu", row.mfu},
                    {"hfu", row.hfu}});
  }
  return rows;
}

}  // namespace

Json breakdown_json(const RunView& view) {
  Json rows = Json::array();
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index) {
    const RankClass& ranks = view.partition.ranks[index];
    const Program& program = view.workload.programs.at(ranks.program);
    const Breakdown times = view.breakdown_of(index);
    Json row = {{"class", index},
                {"program", program.name},
                {"stage", program.stage},
                {"representative", ranks.representative},
                {"ranks", ranks.members}};
    for (std::size_t share = 0; share < kTimeShares; ++share) {
      row[std::string(to_string(static_cast<TimeShare>(share)))] = times.seconds[share];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json memory_json(const RunView& view) {
  Json rows = Json::array();
  for (const StageMemory& stage : stage_memory(view)) {
    Json composition = Json::object();
    for (std::size_t category = 0; category < stage.peak.by_category.size(); ++category) {
      composition[view.workload.categories[category]] = stage.peak.by_category[category];
    }
    const bool bounded = stage.capacity_bytes > 0;
    rows.push_back({{"stage", stage.stage},
                    {"class", stage.rank_class},
                    {"capacity_bytes", bounded ? Json(stage.capacity_bytes) : Json(nullptr)},
                    {"peak_bytes", stage.peak.bytes},
                    {"peak_at_s", stage.peak.at_s},
                    {"peak_operation", peak_operation(view, stage)},
                    {"by_category_bytes", std::move(composition)},
                    {"fits", bounded ? Json(stage.fits) : Json(nullptr)}});
    if (!stage.gpu.empty()) rows.back()["gpu"] = stage.gpu;
  }
  return rows;
}

Json links_json(const RunView& view) {
  Json rows = Json::array();
  for (const LinkSummary& row : link_summary(view)) {
    rows.push_back({{"kind", to_string(row.kind)},
                    {"links", row.links},
                    {"capacity_bytes_per_s", row.capacity_bytes_per_s},
                    {"bytes", row.bytes},
                    {"busiest_link_bytes", row.busiest_bytes},
                    {"busy_fraction", row.busy_fraction},
                    {"busiest_link_busy_fraction", row.busiest_fraction},
                    {"mean_utilisation", row.mean_utilisation},
                    {"peak_utilisation", row.peak_utilisation}});
  }
  return rows;
}

Json collectives_json(const RunView& view) {
  Json rows = Json::array();
  for (const CollectiveSummary& row : collective_summary(view)) {
    rows.push_back(
        {{"group", to_string(row.group)},
         {"op", to_string(row.op)},
         {"requested", row.requested},
         {"algorithm", row.selected_algorithm.algorithm},
         {"protocol", row.selected_algorithm.protocol.empty()
                          ? Json(nullptr)
                          : Json(row.selected_algorithm.protocol)},
         {"channels", row.selected_algorithm.channels == 0 ? Json(nullptr)
                                                           : Json(row.selected_algorithm.channels)},
         {"label", row.selected_algorithm.label},
         {"ranks", row.ranks},
         {"count", row.count},
         {"bytes", row.bytes},
         {"mean_bytes", row.mean_bytes()},
         {"time_s", row.time_s},
         {"mean_time_s", row.mean_time_s()},
         {"busbw_bytes_per_s",
          row.busbw_bytes_per_s > 0.0 ? Json(row.busbw_bytes_per_s) : Json(nullptr)}});
  }
  return rows;
}

Json placement_json(const RunView& view) {
  Json rows = Json::array();
  for (const GroupSpan& row : placement_summary(view)) {
    rows.push_back({{"group", to_string(row.kind)},
                    {"ranks", row.ranks},
                    {"groups", row.groups},
                    {"nodes_least", row.nodes_least},
                    {"nodes_most", row.nodes_most},
                    {"ranks_per_node_most", row.per_node_most},
                    {"neighbours", row.neighbours},
                    {"neighbours_between_nodes", row.crossings},
                    {"switches_most", row.switches_most}});
  }
  return rows;
}

Json costs_json(const RunView& view) {
  const CostSummary costs = cost_summary(view);
  Json shapes = Json::array();
  for (const KernelUse& use : costs.worth_measuring) {
    shapes.push_back({{"kernel", to_text(view.workload.kernels.at(use.kernel))},
                      {"provenance", to_string(use.provenance)},
                      {"share", use.share}});
  }
  return {{"measured", costs.of(Provenance::Measured)},
          {"interpolated", costs.of(Provenance::Interpolated)},
          {"extrapolated", costs.of(Provenance::Extrapolated)},
          {"roofline", costs.of(Provenance::Roofline)},
          {"worth_measuring", std::move(shapes)}};
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json result_json(const RunView& view) {
  const Figures key = figures(view);
  Json result = {{"scenario", view.facts.scenario},
                 {"provenance", provenance_json(view.facts)},
                 {"fits", everything_fits(view)},
                 {"step_time_s", key.step_time_s}};
  if (view.facts.steps > 1.0) {
    result["steps"] = view.facts.steps;
    result["all_steps_time_s"] = view.timeline.makespan_s;
  }
  result.update({{"tokens_per_s", or_null(key.tokens_per_s)},
                 {"tokens_per_s_per_gpu", or_null(key.tokens_per_s_per_gpu)},
                 {"model_tflops_per_gpu", or_null(key.model_tflops_per_gpu)},
                 {"hardware_tflops_per_gpu", or_null(key.hardware_tflops_per_gpu)},
                 {"mfu", or_null(key.mfu)},
                 {"hfu", or_null(key.hfu)},
                 {"flops_convention", text_or_null(view.facts.flops_convention)},
                 {"utilisation", utilisation_json(key)}});
  if (const auto& clocks = view.facts.clocks)
    result["clocks"] = {{"stage_percent", clocks->percent},
                        {"tolerance", clocks->tolerance},
                        {"full_step_time_s", clocks->full_step_s},
                        {"full_energy_j", clocks->full_step_j}};
  if (const auto& balance = view.facts.balance)
    result["balance"] = {{"layers_per_stage", balance->layers},
                         {"replica_microbatches", balance->microbatches},
                         {"equal_step_time_s", balance->equal_step_s}};
  if (const auto total = training_total(view)) result["training"] = training_json(*total);
  // Each registered report adds its section under its own key.
  for (const ReportEntry& report : reports())
    if (!report.result_key.empty()) result[std::string(report.result_key)] = report.json(view);
  if (const auto host = host_memory(view)) result["host_memory"] = host_memory_json(*host);
  if (view.facts.documents) result["documents"] = documents_json(view);
  if (view.facts.local_steps) result["local_steps"] = local_steps_json(view);
  if (view.facts.batches) result["batches"] = batches_json(view);
  if (view.power != nullptr) result["energy"] = energy_json(view);
  result.update(
      {{"fold", fold_json(view)},
       {"approximations", approximations_json(view.facts)},
       {"published", published_json(view.facts)},
       {"interval", view.facts.interval ? interval_json(*view.facts.interval) : Json(nullptr)}});
  return result;
}

// JSON has no NaN and no infinity, and a negative number of bytes is an error of the simulator.
void check_numbers(const Json& json, std::string_view key) {
  if (json.is_structured()) {
    for (const auto& [name, value] : json.items())
      check_numbers(value, json.is_object() ? std::string_view(name) : key);
  } else if (json.is_number()) {
    const auto number = json.get<double>();
    TY_CHECK(std::isfinite(number), key, number);
    TY_CHECK(number >= 0.0 || !key.ends_with("bytes"), key, number);
  }
}

std::string to_text(const Json& json, int indentation) {
  check_numbers(json);
  return json.dump(indentation) + "\n";
}

std::string to_line(const Json& json) {
  check_numbers(json);
  return json.dump();
}

}  // namespace trainyard
