#include "tools/studies/batch/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

void flatten_into(const Json& value, const std::string& path, Json& flat) {
  if (!value.is_structured()) {
    flat[path] = value;
    return;
  }
  std::size_t number = 0;
  for (const auto& [key, item] : value.items()) {
    const std::string name = value.is_array() ? std::to_string(number++) : key;
    flatten_into(item, path.empty() ? name : path + '.' + name, flat);
  }
}

}  // namespace

Json flattened(const Json& value) {
  Json flat = Json::object();
  flatten_into(value, "", flat);
  return flat;
}

namespace {

std::optional<double> number(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The interval of a flattened result; nothing where the run has none.
std::optional<StepInterval> interval_of(const Json& result) {
  if (!number(result, "interval.low_s")) return std::nullopt;
  StepInterval interval{.step_s = number(result, "step_time_s").value_or(0.0),
                        .correlation = number(result, "interval.correlation").value_or(0.0)};
  // A flat result has no lengths of lists: the first index without an entry ends the list.
  for (std::size_t index = 0;; ++index) {
    const std::string part = fmt::format("interval.parts.{}.", index);
    const auto deviation = number(result, part + "deviation");
    if (!deviation) return interval;
    interval.parts.push_back({.name = result.value(part + "name", ""),
                              .cause = result.value(part + "cause", ""),
                              .share = number(result, part + "share").value_or(0.0),
                              .deviation = *deviation,
                              .remedy = result.value(part + "remedy", "")});
  }
}

}  // namespace

RowFigures row_figures(const Json& row) {
  RowFigures figures;
  figures.status = value_of(kRunStatus, row.value("status", "")).value_or(RunStatus::Crashed);
  const auto result = row.find("result");
  if (result == row.end() || !result->is_object()) return figures;
  figures.ran = true;
  figures.step_time_s = number(*result, "step_time_s").value_or(0.0);
  figures.tokens_per_s_per_gpu = number(*result, "tokens_per_s_per_gpu");
  figures.mfu = number(*result, "mfu");
  figures.interval = interval_of(*result);
  figures.energy_kwh = number(*result, "energy.step.energy_kwh");
  figures.cost = number(*result, "energy.step.cost");
  for (std::size_t stage = 0;; ++stage) {
    const auto peak = number(*result, fmt::format("memory.{}.peak_bytes", stage));
    if (!peak) break;
    const double capacity =
        number(*result, fmt::format("memory.{}.capacity_bytes", stage)).value_or(0.0);
    // On GPUs of several kinds the fullest stage need not be the one with the largest peak.
    if (capacity > 0.0) figures.fullest_share = std::max(figures.fullest_share, *peak / capacity);
    if (*peak <= figures.peak_bytes) continue;
    figures.peak_bytes = *peak;
    figures.capacity_bytes = capacity;
  }
  return figures;
}

std::optional<double> row_number(const Json& row, std::string_view path) {
  const auto result = row.find("result");
  if (result == row.end() || !result->is_object()) return std::nullopt;
  if (path == "peak_bytes") return row_figures(row).peak_bytes;
  return number(*result, std::string(path));
}

std::vector<std::pair<std::string, double>> mean_breakdown(const Json& row) {
  std::vector<std::pair<std::string, double>> shares;
  std::map<std::string, std::size_t> place;
  double ranks = 0.0;
  if (!row["result"].is_object()) return shares;
  for (std::size_t number = 0;; ++number) {
    const std::string prefix = fmt::format("breakdown_s.{}.", number);
    const auto members = row_number(row, prefix + "ranks");
    if (!members) break;
    ranks += *members;
    // All times are floats. The integer `ranks`, by which an entry counts, is none.
    for (const auto& [path, value] : row["result"].items()) {
      if (!path.starts_with(prefix) || !value.is_number_float()) continue;
      const auto [entry, fresh] = place.try_emplace(path.substr(prefix.size()), shares.size());
      if (fresh) shares.emplace_back(entry->first, 0.0);
      shares[entry->second].second += *members * value.get<double>();
    }
  }
  for (auto& [share, seconds] : shares) seconds /= ranks;
  return shares;
}

namespace {

// An input that the rows share; "several" if they differ, empty if no row has it.
std::string shared_input(const std::vector<const nlohmann::ordered_json*>& rows,
                         const std::string& path) {
  std::string shared;
  for (const nlohmann::ordered_json* row : rows) {
    if (!row->is_object() || !(*row)["inputs"].is_object()) continue;
    const auto found = (*row)["inputs"].find(path);
    if (found == (*row)["inputs"].end()) continue;
    const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
    if (!shared.empty() && shared != text) return "several";
    shared = text;
  }
  return shared;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> shared_setup(
    const std::vector<const nlohmann::ordered_json*>& rows) {
  const auto input = [&](const char* path) { return shared_input(rows, path); };
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) facts.emplace_back(name, text);
  };
  add("model", input("model.name"));
  if (const std::string node = input("cluster.node"); !node.empty()) {
    const std::string fabric = input("cluster.fabric.kind");
    add("cluster", fmt::format("{} x {}{}", input("cluster.nodes"), node,
                               fabric.empty() ? "" : ", " + fabric));
  }
  if (const std::string batch = input("training.global_batch_size"); !batch.empty())
    add("batch",
        fmt::format("{} sequences of {} tokens", batch, input("training.sequence_length")));
  add("precision", input("training.precision"));
  return facts;
}

}  // namespace trainyard
