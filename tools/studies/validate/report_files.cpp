// A validation for other programs: rows as CSV and JSON.
#include <fmt/format.h>

#include "sim/base/csv.hpp"
#include "tools/studies/validate/report.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

Json score_json(const GroupScore& group) {
  const Score& score = group.score;
  Json json = {{"group", group.group}, {"rows", score.rows}, {"not_predicted", group.refused}};
  if (score.rows == 0) return json;
  json.update(Json{{"mape", score.mape},
                   {"bias", score.bias},
                   {"median", score.median},
                   {"p90", score.p90},
                   {"worst", score.worst}});
  return json;
}

Json row_json(const Outcome& outcome) {
  Json json = {{"id", outcome.row.id}};
  if (outcome.row.step_time_s > 0.0) json["measured_s"] = outcome.row.step_time_s;
  for (std::size_t feature = 0; feature < kFeatures; ++feature) {
    const auto kind = static_cast<Feature>(feature);
    json[std::string(to_string(kind))] = feature_of(outcome.row, kind);
  }
  if (!outcome.predicted()) {
    json["reason"] = outcome.reason;
    return json;
  }
  json["predicted_s"] = outcome.predicted_s;
  if (outcome.timed()) json["error"] = outcome.error();
  if (outcome.interval) json["interval_s"] = {outcome.interval->low, outcome.interval->high};
  json["fits"] = outcome.fits;
  json["peak_memory_gib"] = outcome.peak_memory_gib;
  if (outcome.row.peak_memory_gib) json["measured_memory_gib"] = *outcome.row.peak_memory_gib;
  json["wall_s"] = outcome.wall_s;
  for (const TimePart& part : outcome.parts) json["parts"][part.name] = part.seconds;
  json["uncertain"] = outcome.uncertain;
  return json;
}

// A row of measured memory in the columns of a run. Columns that memory does not have are empty.
std::string memory_csv_line(const MemoryOutcome& outcome) {
  std::string text = csv_field(outcome.id);
  for (std::size_t feature = 0; feature < kFeatures; ++feature) {
    const auto kind = static_cast<Feature>(feature);
    text += ',';
    if (kind == Feature::Source) text += csv_field(outcome.source);
    if (kind == Feature::Operation) text += csv_field(outcome.figure);
  }
  text += ",,,,";
  text += outcome.predicted()
              ? fmt::format("{:.4f},,{:.4f}", outcome.error(), outcome.predicted_gib)
              : ",,";
  return text + fmt::format(",{},,,{}\n", outcome.measured_gib, csv_field(outcome.reason));
}

}  // namespace

std::string validation_csv(const std::vector<Outcome>& outcomes,
                           const std::vector<MemoryOutcome>& memory) {
  std::string text = "id";
  for (std::size_t feature = 0; feature < kFeatures; ++feature) {
    text += fmt::format(",{}", to_string(static_cast<Feature>(feature)));
  }
  text +=
      ",gpus,measured_s,predicted_s,error,fits,peak_memory_gib,measured_memory_gib,wall_s,parts,"
      "reason\n";
  for (const Outcome& outcome : outcomes) {
    text += csv_field(outcome.row.id);
    for (std::size_t feature = 0; feature < kFeatures; ++feature) {
      text += ',' + csv_field(feature_of(outcome.row, static_cast<Feature>(feature)));
    }
    const double measured_s = outcome.row.step_time_s;
    text += fmt::format(",{},{}", whole_at(outcome.row.description, "/hardware/num_gpus", 0),
                        measured_s > 0.0 ? fmt::format("{}", measured_s) : "");
    if (!outcome.predicted()) {
      text += ",,,,,,,," + csv_field(outcome.reason) + '\n';
      continue;
    }
    const std::optional<double>& measured = outcome.row.peak_memory_gib;
    text += fmt::format(",{:.6g},{},{},{:.4f},{},{:.3f},{},\n", outcome.predicted_s,
                        outcome.timed() ? fmt::format("{:.4f}", outcome.error()) : "", outcome.fits,
                        outcome.peak_memory_gib, measured ? fmt::format("{}", *measured) : "",
                        outcome.wall_s, csv_field(parts_text(outcome, outcome.parts.size())));
  }
  for (const MemoryOutcome& outcome : memory) text += memory_csv_line(outcome);
  return text;
}

Json validation_json(const std::vector<Outcome>& outcomes, const ReportChoice& choice) {
  Json json = {{"program", choice.program}, {"date", choice.date}};
  json["all"] = score_json(score_of_all(outcomes));
  for (const Feature feature : choice.groups) {
    Json& groups = json["by"][std::string(to_string(feature))] = Json::array();
    for (const GroupScore& group : scores_by(outcomes, feature)) {
      groups.push_back(score_json(group));
    }
  }
  for (const LeftOutRuns& runs : choice.left_out) {
    Json& without = json["left_out"][std::string(to_string(runs.feature))];
    without["all"] = score_json(score_of_all(runs.outcomes));
    for (const GroupScore& group : scores_by(runs.outcomes, runs.feature))
      without["groups"].push_back(score_json(group));
    for (const Outcome& outcome : runs.outcomes) without["rows"].push_back(row_json(outcome));
  }
  json["rows"] = Json::array();
  for (const Outcome& outcome : outcomes) json["rows"].push_back(row_json(outcome));
  return json;
}

}  // namespace trainyard
