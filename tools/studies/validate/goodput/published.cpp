#include "tools/studies/validate/goodput/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "models/reliability/checkpoint_interval.hpp"
#include "scenarios/reader/reliability.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/goodput/scenario_job.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kSecondsPerMinute = 60.0;
constexpr double kFailuresPerRun = 2000;  // of a sampled run without a length of its own
constexpr std::size_t kRunsOfRow = 200;

// Reads 0.93, and "> 0.90" as a bound.
bool read_figure(const Json& measured, const char* key, PublishedGoodput& row) {
  if (!measured.contains(key)) return false;
  const Json& value = measured[key];
  if (value.is_number()) {
    row.published = value.get<double>();
    return true;
  }
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with("> ")) return false;
  row.published = std::strtod(value.get_ref<const std::string&>().c_str() + 2, nullptr);
  row.bound = true;
  return row.published > 0.0;
}

// A job of steps of one second that fails at the rate of its nodes, as Kokolis et al. describe it.
std::optional<Job> job_of_setup(const Json& setup, std::string& supposed) {
  std::optional<double> nodes = number_at(setup, "nodes");
  if (const auto gpus = number_at(setup, "gpus"); !nodes && gpus) nodes = *gpus / kGpusPerNode;
  const std::optional<double> rate = number_at(setup, "rate_per_node_day");
  const std::optional<double> restart = number_at(setup, "restart_min");
  if (!nodes || !rate || !restart) return {};
  Job job;
  CheckpointLevel& storage = job.storage();
  job.causes = {{.name = "node", .rate = *nodes * *rate / kSecondsPerDay}};
  job.step_s = 1.0;
  job.start_s = *restart * kSecondsPerMinute;
  if (const auto write = number_at(setup, "write_min"))
    storage.stall_s = *write * kSecondsPerMinute;
  else if (const auto seconds = number_at(setup, "write_s"))
    storage.stall_s = *seconds;
  else
    supposed = "checkpoints take no time";
  // A row gives its interval, or says that it is Young's. Steps of one second make the interval in
  // seconds the interval in steps.
  double interval_s = reliability::young_interval(storage.stall_s, job.mtbf_s());
  if (const auto interval = number_at(setup, "interval_min"))
    interval_s = *interval * kSecondsPerMinute;
  else if (setup.value("interval", std::string()) != "Young")
    return {};
  storage.interval_steps = std::max<std::int64_t>(1, std::llround(interval_s));
  return job;
}

// A set-up of data/goodput_rows.json.
struct PresetRow {
  // `figure` is the key of the row's measured value. `published` replaces it where the source gives
  // only numbers from which it follows.
  std::string row, figure, preset, supposed;
  std::int64_t nodes = 0;
  double days = 0.0;
  double step_s = 0.0;
  std::optional<double> published = {};
};

std::vector<PresetRow> preset_rows() {
  JsonFile file = JsonFile::read(data_file("tools/studies/validate/data", "goodput_rows"));
  JsonObject root = file.root();
  static_cast<void>(root.text("source"));
  std::vector<PresetRow> rows;
  for (JsonObject& entry : root.objects("rows")) {
    PresetRow row{.row = entry.text("row"),
                  .figure = entry.text("figure"),
                  .preset = entry.text("preset"),
                  .supposed = entry.text("supposed"),
                  .nodes = entry.integer("nodes", {.least = 1}),
                  .days = entry.number("days", {.least = 0.0}),
                  .step_s = entry.time("step_time").value()};
    if (entry.has("published")) row.published = entry.number("published");
    rows.push_back(std::move(row));
  }
  file.finish();
  return rows;
}

// The times of a preset hold without a model, so a checkpoint needs no bytes.
Job job_of_preset(const PresetRow& row) {
  Scenario scenario;
  scenario.file = row.preset;
  scenario.cluster.nodes = static_cast<std::uint32_t>(row.nodes);
  scenario.reliability = load_reliability(row.preset);
  if (!scenario.reliability->checkpoint.bytes) scenario.reliability->checkpoint.bytes = Bytes{0.0};
  return job_with_step(scenario, row.step_s);
}

Summary sampled_goodput(const Job& job, const RunLength& length) {
  std::vector<double> values;
  for (std::size_t i = 0; i < kRunsOfRow; ++i) {
    const SampledRun run = sampled_run(job, length, 0, i);
    values.push_back(run.phase(RunPhase::Productive) / run.wall_s);
  }
  return summary(std::move(values));
}

// Predicts a row, or returns the reason why not.
std::string predict(const Json& entry, const std::vector<PresetRow>& presets,
                    PublishedGoodput& row) {
  const Json& measured = entry.at("measured");
  const auto preset = std::find_if(presets.begin(), presets.end(),
                                   [&](const PresetRow& one) { return one.row == row.id; });
  if (preset != presets.end()) {
    if (preset->published)
      row.published = *preset->published;
    else if (!read_figure(measured, preset->figure.c_str(), row))
      return "its figure is absent";
    row.supposed = preset->supposed;
    row.predicted =
        sampled_goodput(job_of_preset(*preset), {.wall_s = preset->days * kSecondsPerDay});
    return "";
  }
  if (!read_figure(measured, "ettr", row)) return "it has no ETTR";
  const std::optional<Job> job = job_of_setup(entry.at("setup"), row.supposed);
  if (!job) return "rate, restart or interval is not stated";
  // Such a row gives no length of a run. With this many failures its begin and end do not matter.
  row.predicted = sampled_goodput(*job, {.wall_s = kFailuresPerRun * job->mtbf_s()});
  return "";
}

// Adds what is predicted of a row to `all`. Returns the reason why that is not all that is asked.
// goodput_peers.json and job_rows.json name rows by their ids, so they come before the topics. A
// row of failures may have a count and an ETTR: the count is predicted also where the ETTR is not.
std::string predict_row(const Json& entry, const std::vector<PresetRow>& presets,
                        GoodputRows& all) {
  if (!entry.contains("setup") || !entry.contains("measured"))
    return "its set-up or its figures are absent";
  const std::vector<PeerCase> peers = peer_cases(entry);
  all.peers.insert(all.peers.end(), peers.begin(), peers.end());
  if (!peers.empty()) return "";
  if (describes_jobs(entry.value("id", ""))) {
    const std::vector<JobRow> rows = predict_jobs(entry);
    all.jobs.insert(all.jobs.end(), rows.begin(), rows.end());
    return rows.empty() ? "no case has the stated step alone" : "";
  }
  const std::string topic = entry.value("topic", "");
  if (topic == "energy") return predict_energy(entry, all.energy);
  if (topic == "step" || topic == "heterogeneous") return predict_plan(entry, all.plans);
  if (topic != "ETTR" && topic != "failures")
    return fmt::format("the topic {} is not simulated", topic);
  static_cast<void>(predict_counts(entry, all.counts));
  PublishedGoodput row{.id = entry.value("id", ""),
                       .quality = entry.value("quality", ""),
                       .source = entry.value("source", "")};
  const std::string reason = predict(entry, presets, row);
  if (reason.empty()) all.rows.push_back(std::move(row));
  return reason;
}

// The rows of a file are an array, or stand under "rows".
Json rows_of(const std::filesystem::path& file) {
  Json document = parse_json(file.string(), read_file(file));
  return document.is_object() && document.contains("rows") ? document["rows"] : document;
}

std::string cut(const std::string& text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return text;
  return fmt::format("{}...", std::string_view(text).substr(0, kMost - 3));
}

}  // namespace

double PublishedGoodput::error() const {
  if (bound && predicted.mean >= published) return 0.0;
  return predicted.mean - published;
}

bool is_goodput_dataset(const std::filesystem::path& file) {
  if (file.extension() != ".json") return false;
  const Json rows = rows_of(file);
  if (!rows.is_array() || rows.empty() || !rows[0].is_object()) return false;
  return rows[0].contains("topic") && rows[0].contains("setup");
}

GoodputRows validate_goodput(const std::filesystem::path& file,
                             const std::function<bool(const std::string&)>& chosen) {
  GoodputRows all;
  const std::vector<PresetRow> presets = preset_rows();
  for (const Json& entry : rows_of(file)) {
    const std::string id = entry.value("id", "");
    if (!chosen(id)) continue;
    const std::string reason = predict_row(entry, presets, all);
    if (!reason.empty()) all.left_out.emplace_back(id, reason);
  }
  return all;
}

std::string goodput_rows_text(const GoodputRows& rows) {
  TextTable table({"run", "quality", "published", "predicted", "+- (95 %)", "error", "supposed"});
  for (const PublishedGoodput& row : rows.rows)
    table.row({row.id, row.quality, fmt::format("{}{:.3f}", row.bound ? "> " : "", row.published),
               fmt::format("{:.4f}", row.predicted.mean),
               fmt::format("{:.4f}", row.predicted.half_width), fmt::format("{:+.3f}", row.error()),
               cut(row.supposed)});
  std::string text = rows.rows.empty() ? "" : table.text();
  text += counts_text(rows.counts) + peers_text(rows.peers) + energy_rows_text(rows.energy) +
          job_rows_text(rows.jobs) + plan_rows_text(rows.plans);
  std::map<std::string, int> reasons;
  for (const auto& [id, reason] : rows.left_out) ++reasons[reason];
  if (rows.rows.empty() && rows.left_out.empty()) return text;
  text += fmt::format("\nGoodput of {} rows predicted, {} rows NOT PREDICTED:\n", rows.rows.size(),
                      rows.left_out.size());
  for (const auto& [reason, count] : reasons) text += fmt::format("  {:4}  {}\n", count, reason);
  return text;
}

Json goodput_rows_json(const GoodputRows& rows) {
  Json json{{"rows", Json::array()},
            {"interruptions", counts_json(rows.counts)},
            {"other_simulators", peers_json(rows.peers)},
            {"energy", energy_rows_json(rows.energy)},
            {"jobs", job_rows_json(rows.jobs)},
            {"plans", plan_rows_json(rows.plans)},
            {"left_out", Json::array()}};
  for (const PublishedGoodput& row : rows.rows)
    json["rows"].push_back({{"id", row.id},
                            {"quality", row.quality},
                            {"source", row.source},
                            {"published", row.published},
                            {"bound", row.bound},
                            {"predicted", row.predicted.mean},
                            {"half_width_95", row.predicted.half_width},
                            {"error", row.error()},
                            {"supposed", row.supposed}});
  for (const auto& [id, reason] : rows.left_out)
    json["left_out"].push_back({{"id", id}, {"reason", reason}});
  return json;
}

}  // namespace trainyard
