#include "tools/studies/validate/memory_rows.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

// A figure to predict, and the run on which it was measured.
struct MemoryRow {
  MemoryOutcome outcome;
  double (*read)(const Outcome& run) = nullptr;
  std::optional<MeasuredRow> run = {};
};

// The part of an id between its first two hyphens: "mem-korthikanti-1" -> "korthikanti".
std::string source_of(const std::string& id) {
  const std::size_t first = id.find('-');
  return first == std::string::npos ? id
                                    : id.substr(first + 1, id.find('-', first + 1) - first - 1);
}

MemoryRow new_row(const std::string& id, const std::string& figure, double gib) {
  return {.outcome = {.id = id, .source = source_of(id), .figure = figure, .measured_gib = gib}};
}

// The settings of a figure of Korthikanti et al. 2022 as a measured run. A peak of 0 is present, so
// validate() does not skip the run as one without any measurement.
MeasuredRow run_of_figure(const Json& json) {
  const std::string mode = text_at(json, "/mode");
  const std::int64_t hidden = whole_at(json, "/config/hidden", 0);
  MeasuredRow row{.id = text_at(json, "/id"), .source = "korthikanti", .peak_memory_gib = 0.0};
  const bool selective = mode.find("selective") != std::string::npos;
  constexpr std::int64_t kVocabulary = 51200;  // of the paper's models
  row.description = {
      {"id", row.id},
      {"model",
       {{"name", text_at(json, "/model")},
        {"arch", "dense"},
        {"layers", whole_at(json, "/config/layers", 0)},
        {"hidden", hidden},
        {"heads", whole_at(json, "/config/heads", 0)},
        {"ffn", 4 * hidden},
        {"gated_mlp", false},
        {"vocab", kVocabulary}}},
      {"hardware",
       {{"gpu", text_at(json, "/gpu")}, {"num_gpus", whole_at(json, "/config/gpus", 0)}}},
      {"framework", "Megatron-LM"},
      {"precision", "FP16"},
      {"parallel",
       {{"tp", whole_at(json, "/config/tp", 1)},
        {"pp", whole_at(json, "/config/pp", 1)},
        {"vp", whole_at(json, "/config/vp", 1)},
        {"dp", 1},
        {"zero_stage", 0},
        {"sequence_parallel", mode.starts_with("sequence_parallel")}}},
      {"batch",
       {{"micro_batch", whole_at(json, "/config/mbs", 1)},
        {"global_batch", whole_at(json, "/config/gbs", 1)},
        {"seq_len", whole_at(json, "/seq_len", 0)}}},
      {"recompute", selective        ? "selective (attention core)"
                    : mode == "full" ? "full"
                                     : "none"}};
  return row;
}

// A figure gives two rows of the same run; validate() simulates equal scenarios once.
std::vector<MemoryRow> rows_of_figure(const std::string& id, const Json& json) {
  if (value_at(json, "/activations_pct_of_tp_baseline") != nullptr) {
    MemoryRow row = new_row(id, "activations of the first stage", 0.0);
    row.outcome.reason = "is a share of what another run holds, not bytes";
    return {row};
  }
  MemoryRow state =
      new_row(id, "state of the first stage", number_at(json, "/params_grads_optimizer_gib", 0.0));
  MemoryRow activations =
      new_row(id, "activations of the first stage", number_at(json, "/activations_gib", 0.0));
  state.read = [](const Outcome& run) { return run.memory.first_state; };
  activations.read = [](const Outcome& run) { return run.memory.first_activations; };
  state.run = activations.run = run_of_figure(json);
  return {state, activations};
}

MemoryRow row_of_run(const std::string& id, const Json& json,
                     const std::map<std::string, MeasuredRow>& runs) {
  const bool allocated = text_at(json, "/metric") == "peak_mem_allocated_gib";
  MemoryRow row = new_row(id, allocated ? "allocated" : "reserved", number_at(json, "/value", 0.0));
  const std::string named = text_at(json, "/training_id");
  const auto found = runs.find(named);
  if (found == runs.end()) {
    row.outcome.reason = "its run is not in training/published.json next to the file";
    return row;
  }
  row.read = allocated ? [](const Outcome& run) { return run.peak_memory_gib; }
                       : [](const Outcome& run) { return run.memory.reserved; };
  row.run = found->second;
  // validate() skips a run that has neither a measured step time nor a measured memory.
  row.run->peak_memory_gib = row.outcome.measured_gib;
  return row;
}

// The runs of training/published.json in the folder of the file, by id.
std::map<std::string, MeasuredRow> runs_beside(const std::filesystem::path& file) {
  std::map<std::string, MeasuredRow> runs;
  const std::filesystem::path data = file.parent_path() / "training" / "published.json";
  if (!std::filesystem::exists(data)) return runs;
  for (MeasuredRow& row : read_dataset(data)) runs.emplace(row.id, std::move(row));
  return runs;
}

std::vector<MemoryRow> read_rows(const std::filesystem::path& file, const RowChosen& chosen) {
  const Json document = parse_json(file.string(), read_file(file));
  const std::map<std::string, MeasuredRow> runs = runs_beside(file);
  std::vector<MemoryRow> rows;
  for (std::size_t number = 0; number < document.size(); ++number) {
    const Json& json = document[number];
    const std::string id = text_at(json, "/id");
    if (id.empty())
      throw InputError(
          Problem{file.string(), fmt::format("/{}/id", number), "is missing", "it must be a text"});
    if (!chosen(id)) continue;
    if (value_at(json, "/mode") == nullptr) {
      rows.push_back(row_of_run(id, json, runs));
      continue;
    }
    for (MemoryRow& row : rows_of_figure(id, json)) rows.push_back(std::move(row));
  }
  if (rows.empty())
    throw InputError(Problem{file.string(), "", "no row is chosen", "widen --only"});
  for (MemoryRow& row : rows)
    if (row.outcome.reason.empty() && !(row.outcome.measured_gib > 0.0))
      row.outcome.reason = "no memory was measured";
  return rows;
}

std::map<std::string, std::vector<double>> errors_by_group(
    const std::vector<MemoryOutcome>& outcomes) {
  std::map<std::string, std::vector<double>> errors;
  for (const MemoryOutcome& row : outcomes)
    if (row.predicted()) errors[row.source + ", " + row.figure].push_back(row.error());
  return errors;
}

}  // namespace

bool is_memory_dataset(const std::filesystem::path& file) {
  if (file.extension() != ".json") return false;
  const Json document = parse_json(file.string(), read_file(file));
  if (!document.is_array() || document.empty() || !document[0].is_object()) return false;
  return document[0].contains("training_id") || document[0].contains("mode");
}

std::vector<MemoryOutcome> validate_memory(const std::filesystem::path& file,
                                           const RowChosen& chosen,
                                           const ValidateOptions& options) {
  std::vector<MemoryRow> rows = read_rows(file, chosen);
  std::vector<MeasuredRow> runs;
  for (const MemoryRow& row : rows)
    if (row.run) runs.push_back(*row.run);
  const std::vector<Outcome> simulated = validate(runs, options);
  std::vector<MemoryOutcome> outcomes;
  // `simulated` has one outcome for each row with a run, in the order of the rows.
  std::size_t next = 0;
  for (MemoryRow& row : rows) {
    if (row.run) {
      const Outcome& run = simulated[next++];
      if (row.outcome.reason.empty()) row.outcome.reason = run.reason;
      if (run.predicted()) row.outcome.predicted_gib = row.read(run);
    }
    outcomes.push_back(std::move(row.outcome));
  }
  return outcomes;
}

std::string memory_rows_text(const std::vector<MemoryOutcome>& outcomes) {
  TextTable groups({"memory", "rows", "MAPE", "bias", "worst"});
  std::vector<double> all;
  for (const auto& [group, errors] : errors_by_group(outcomes)) {
    const Score score = score_of(errors);
    groups.row({group, fmt::format("{}", score.rows), percent(score.mape),
                signed_percent(score.bias), percent(score.worst)});
    all.insert(all.end(), errors.begin(), errors.end());
  }
  const Score score = score_of(all);
  groups.row({"all", fmt::format("{}", score.rows), percent(score.mape), signed_percent(score.bias),
              percent(score.worst)});
  std::string text = groups.text() + "\nEvery figure\n";
  std::map<std::string, std::size_t> reasons;
  for (const MemoryOutcome& row : outcomes) {
    if (!row.predicted()) {
      ++reasons[row.reason];
      continue;
    }
    text += wrapped(
        fmt::format("  {:>8}  {}: {:.2f} GiB, predicted {:.2f} ({})", signed_percent(row.error()),
                    row.id, row.measured_gib, row.predicted_gib, row.figure),
        12);
  }
  if (!reasons.empty()) text += "\nNot predicted, and why\n";
  for (const auto& [reason, count] : reasons)
    text += wrapped(fmt::format("  {:>4}  {}", count, reason), 8);
  return text;
}

Json memory_rows_json(const std::vector<MemoryOutcome>& outcomes) {
  Json rows = Json::array();
  for (const MemoryOutcome& row : outcomes) {
    Json json{{"id", row.id},
              {"source", row.source},
              {"figure", row.figure},
              {"measured_gib", row.measured_gib}};
    if (row.predicted()) {
      json["predicted_gib"] = row.predicted_gib;
      json["error"] = row.error();
    } else {
      json["reason"] = row.reason;
    }
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace trainyard
