#include "tools/studies/validate/goodput/published_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "scenarios/reader/reliability.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/scenario_job.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.95;
constexpr double kDaysPerMonth = 365.25 / 12.0;
constexpr double kNodesMost = 1e8;
constexpr double kStep = 1.0;  // the rates do not depend on the step
constexpr const char* kOwnRates = "the row's own";

// How the count of a row is read, of data/goodput_counts.json.
struct CountReading {
  std::string row;
  std::vector<std::string> counts;  // keys of the row that are added
  std::vector<std::string> presets_of_this_count;
  std::string supposed;
};

std::vector<CountReading> readings() {
  JsonFile file = JsonFile::read(data_file("tools/studies/validate/data", "goodput_counts"));
  JsonObject root = file.root();
  static_cast<void>(root.text("source"));
  std::vector<CountReading> all;
  for (JsonObject& entry : root.objects("rows")) {
    static_cast<void>(entry.text("source"));
    all.push_back({.row = entry.text("row"),
                   .counts = entry.texts("counts"),
                   .presets_of_this_count = entry.texts("presets_of_this_count"),
                   .supposed = entry.text("supposed")});
  }
  file.finish();
  return all;
}

// A row that the file does not name is read by the first of these keys that it has.
CountReading reading_of(const Json& entry) {
  static const std::vector<CountReading> known = readings();
  const std::string id = entry.value("id", "");
  const auto named = std::ranges::find(known, id, &CountReading::row);
  if (named != known.end()) return *named;
  CountReading reading{.row = id,
                       .counts = {},
                       .presets_of_this_count = {},
                       .supposed = "nodes fail as often as those of the preset"};
  for (const char* key : {"interruptions_unexpected", "failures", "incidents", "restarts"})
    if (reading.counts.empty() && entry.at("setup").contains(key)) reading.counts.emplace_back(key);
  return reading;
}

// The number at the first of several keys, of the set-up or else of what was measured.
std::optional<double> number_of(const Json& entry, std::initializer_list<const char*> keys) {
  for (const char* part : {"setup", "measured"})
    for (const char* key : keys)
      if (entry.at(part).contains(key) && entry.at(part)[key].is_number())
        return entry.at(part)[key].get<double>();
  return {};
}

// A count in parts (evictions, rollbacks) is their sum. Without one of its parts there is none.
std::optional<std::int64_t> count_of(const Json& entry, const CountReading& reading) {
  if (reading.counts.empty()) return {};
  double sum = 0.0;
  for (const std::string& key : reading.counts) {
    const std::optional<double> one = number_of(entry, {key.c_str()});
    if (!one) return {};
    sum += *one;
  }
  return std::llround(sum);
}

std::optional<double> days_of(const Json& entry) {
  if (const auto days = number_of(entry, {"days", "wall_days"})) return days;
  if (const auto months = number_of(entry, {"months"})) return *months * kDaysPerMonth;
  return {};
}

std::optional<double> nodes_of(const Json& entry) {
  if (const auto nodes = number_of(entry, {"nodes", "machines", "servers"})) return nodes;
  if (const auto gpus = number_of(entry, {"gpus"})) return *gpus / kGpusPerNode;
  return {};
}

// Failures a day of a job of so many nodes, by the rates alone; planned interruptions are none.
// Bytes of a checkpoint would need a model and do not matter here.
double failures_a_day(const std::string& preset, double nodes) {
  Scenario scenario;
  scenario.file = preset;
  scenario.cluster.nodes = static_cast<std::uint32_t>(nodes);
  scenario.reliability = load_reliability(preset);
  if (!scenario.reliability->checkpoint.bytes) scenario.reliability->checkpoint.bytes = Bytes{0.0};
  return kSecondsPerDay / job_with_step(scenario, kStep).mtbf_s();
}

// A preset of the network alone predicts no interruptions of a whole job.
bool counts_nodes(const std::string& preset) {
  return std::ranges::any_of(load_reliability(preset).failures, [](const FailureProcess& one) {
    return one.component == FailingComponent::Gpu || one.component == FailingComponent::Node;
  });
}

// The failures a day that the row itself states, beside the count.
std::optional<double> stated_a_day(const Json& entry, double nodes) {
  if (const auto hosts = number_of(entry, {"hosts_lost_per_day"})) return hosts;
  if (const auto rate = number_of(entry, {"rate_per_node_day"})) return *rate * nodes;
  return {};
}

}  // namespace

std::string predict_counts(const Json& entry, std::vector<PublishedCount>& rows) {
  const CountReading reading = reading_of(entry);
  const std::optional<std::int64_t> count = count_of(entry, reading);
  const std::optional<double> days = days_of(entry);
  const std::optional<double> nodes = nodes_of(entry);
  if (!count) return "it has no count";
  if (!days || !nodes) return "the nodes or the time of its count are not stated";
  if (*count < 0 || *days <= 0.0 || *nodes < 1.0 || *nodes > kNodesMost)
    return "its count, nodes or time cannot be";
  PublishedCount row{.id = entry.value("id", ""),
                     .quality = entry.value("quality", ""),
                     .source = entry.value("source", ""),
                     .published = *count,
                     .days = *days,
                     .interval = reliability::poisson_interval(*count, kConfidence),
                     .rates = kOwnRates,
                     .supposed = "each host that is lost is one interruption"};
  if (const auto a_day = stated_a_day(entry, *nodes)) {
    row.predicted = *a_day * *days;
    rows.push_back(row);
  }
  for (const std::string& preset : reliability_presets()) {
    if (!counts_nodes(preset)) continue;
    row.rates = preset;
    row.predicted = failures_a_day(preset, *nodes) * *days;
    row.same_count = std::ranges::find(reading.presets_of_this_count, preset) !=
                     reading.presets_of_this_count.end();
    row.supposed = reading.supposed;
    rows.push_back(row);
  }
  return "";
}

std::string counts_text(const std::vector<PublishedCount>& rows) {
  if (rows.empty()) return "";
  TextTable table(
      {"run", "quality", "published", "95 % interval", "rates of", "predicted", "a day", "within"});
  std::int64_t scored = 0;
  std::int64_t within = 0;
  std::string supposed;
  std::set<std::string> told;
  for (const PublishedCount& row : rows) {
    const char* verdict = row.same_count ? "same count" : row.within() ? "yes" : "no";
    table.row({row.id, row.quality, std::to_string(row.published),
               fmt::format("{:.1f} to {:.1f}", row.interval.lower, row.interval.upper), row.rates,
               fmt::format("{:.1f}", row.predicted),
               fmt::format("{:.3g}", row.predicted / row.days), verdict});
    scored += row.same_count ? 0 : 1;
    within += !row.same_count && row.within() ? 1 : 0;
    if (told.insert(row.id + row.supposed).second)
      supposed += wrapped(fmt::format("  {}: {}", row.id, row.supposed), 4);
  }
  return fmt::format(
      "\nInterruptions\n{}  {} of {} predictions are within the Poisson interval of the count; "
      "where "
      "the\n  rates come from the same count, nothing is predicted\nSupposed\n{}",
      table.text(), within, scored, supposed);
}

Json counts_json(const std::vector<PublishedCount>& rows) {
  Json json = Json::array();
  for (const PublishedCount& row : rows)
    json.push_back({{"id", row.id},
                    {"quality", row.quality},
                    {"source", row.source},
                    {"published", row.published},
                    {"days", row.days},
                    {"interval_95", {row.interval.lower, row.interval.upper}},
                    {"rates", row.rates},
                    {"predicted", row.predicted},
                    {"same_count", row.same_count},
                    {"within", row.within()},
                    {"supposed", row.supposed}});
  return json;
}

}  // namespace trainyard
