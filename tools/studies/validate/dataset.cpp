#include "tools/studies/validate/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <sstream>
#include <string_view>

#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/nearest.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, kFeatures> kNames{
    "source",    "gpu",       "parallelism", "precision", "scale",   "framework", "model",
    "recompute", "operation", "size",        "group",     "replica", "family",    "release"};

// The text before the first of the letters: "A100-SXM4" of "A100-SXM4 (80GB)" for "(".
std::string until(const std::string& text, const char* letters) {
  std::string part = text.substr(0, text.find_first_of(letters));
  while (!part.empty() && part.back() == ' ') part.pop_back();
  return part;
}

// The parallelism as words: the dimensions with more than one rank, and how the data-parallel ranks
// shard the state. Examples: "tp pp dp", "tp fsdp", "one GPU".
std::string dimensions(const Json& row) {
  std::string text;
  for (const char* name : {"tp", "pp", "cp", "ep"}) {
    if (whole_at(row, std::string("/parallel/") + name, 1) > 1) text += std::string(name) + ' ';
  }
  const std::int64_t zero = whole_at(row, "/parallel/zero_stage", 0);
  if (zero >= 2) return text + (zero == 3 ? "fsdp" : "zero2");
  if (whole_at(row, "/parallel/dp", 1) > 1) text += "dp ";
  if (text.empty()) return "one GPU";
  text.pop_back();
  return text;
}

// The name of a replica's settings: "titan-llama3_8b-h100 H100 torchtitan (FSDP2) BF16 none tp1 pp1
// vp1 cp1 ep1 zero1_group1 2x8192". It contains no commas, because they separate columns.
std::string replica(const MeasuredRow& row) {
  const Json& json = row.description;
  std::string text = feature_of(row, Feature::Group) + ' ' + feature_of(row, Feature::Gpu) + ' ' +
                     text_at(json, "/framework", "unknown") + ' ' +
                     text_at(json, "/precision", "unknown") + ' ' +
                     text_at(json, "/recompute", "none");
  for (const char* name : {"tp", "pp", "vp", "cp", "ep", "zero1_group"})
    text += ' ' + std::string(name) +
            std::to_string(whole_at(json, std::string("/parallel/") + name, 1));
  text += ' ' + std::to_string(whole_at(json, "/batch/micro_batch", 1)) + 'x' +
          std::to_string(whole_at(json, "/batch/seq_len", 0));
  std::replace(text.begin(), text.end(), ',', ';');
  return text;
}

std::string scale(std::int64_t gpus) {
  if (gpus <= 8) return "1-8 GPUs";
  if (gpus <= 64) return "9-64 GPUs";
  if (gpus <= 512) return "65-512 GPUs";
  if (gpus <= 2048) return "513-2048 GPUs";
  return "over 2048 GPUs";
}

}  // namespace

// A null counts as absent.
const Json* value_at(const Json& json, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  if (!json.contains(place)) return nullptr;
  const Json& value = json.at(place);
  return value.is_null() ? nullptr : &value;
}

std::int64_t whole_at(const Json& json, const std::string& pointer, std::int64_t otherwise) {
  const Json* value = value_at(json, pointer);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
}

double number_at(const Json& json, const std::string& pointer, double otherwise) {
  const Json* value = value_at(json, pointer);
  return value != nullptr && value->is_number() ? value->get<double>() : otherwise;
}

std::string text_at(const Json& json, const std::string& pointer, const std::string& otherwise) {
  const Json* value = value_at(json, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
}

bool truth_at(const Json& json, const std::string& pointer, bool otherwise) {
  const Json* value = value_at(json, pointer);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string_view to_string(Feature feature) { return kNames[static_cast<std::size_t>(feature)]; }

Feature feature_named(const std::string& option, const std::string& name) {
  for (std::size_t index = 0; index < kFeatures; ++index) {
    if (kNames[index] == name) return static_cast<Feature>(index);
  }
  throw InputError(Problem{option, "", '"' + name + "\" is nothing that rows are grouped by",
                           suggestion(name, {kNames.begin(), kNames.end()})});
}

std::string feature_of(const MeasuredRow& row, Feature feature) {
  const Json& json = row.description;
  switch (feature) {
    case Feature::Source:
      return row.source;
    case Feature::Gpu:
      return until(text_at(json, "/hardware/gpu", "unknown"), "(");
    case Feature::Parallelism:
      return dimensions(json);
    case Feature::Precision:
      return until(text_at(json, "/precision", "unknown"), "(");
    case Feature::Scale:
      return scale(whole_at(json, "/hardware/num_gpus", 1));
    case Feature::Framework:
      return until(text_at(json, "/framework", "unknown"), "(+,");
    case Feature::Model:
      return text_at(json, "/model/arch", "dense");
    case Feature::Recompute:
      return until(text_at(json, "/recompute", "none"), "([");
    case Feature::Operation:
      return text_at(json, "/operation", "step");
    case Feature::Size:
      return text_at(json, "/size", "unknown");
    case Feature::Group:
      return text_at(json, "/group", row.source);
    case Feature::Replica:
      return replica(row);
    case Feature::Family:
      // The name up to its version or size: "Llama" of "Llama-3.1 8B".
      return until(text_at(json, "/model/name", "unknown"), "-0123456789");
    case Feature::Release:
      return text_at(json, "/framework", "unknown");
  }
  return {};
}

namespace fs = std::filesystem;

fs::path machine_file_name(const fs::path& data) {
  fs::path name = data;
  return name.replace_extension(".machine.json");
}

std::optional<fs::path> machine_file(const fs::path& data) {
  const fs::path name = machine_file_name(data);
  std::error_code error;
  return fs::is_regular_file(name, error) ? std::optional(name) : std::nullopt;
}

bool is_platform_block(const fs::path& machine) {
  JsonFile file = JsonFile::read(machine);
  const nlohmann::ordered_json& document = file.document();
  return document.is_object() && document.contains("gpu") && !document.contains("devices");
}

nlohmann::ordered_json read_machine(const fs::path& machine) {
  if (is_platform_block(machine))
    throw InputError(
        Problem{machine.string(), "/gpu",
                "describes a platform of nccl-tests, and runs of training need a cluster",
                "write {\"node\": \"dgx_h100\", \"nodes\": 4, \"fabric\": {...}}"});
  return to_json(read_cluster_file(machine));
}

namespace {

// The columns of vTrain's table. All but the last are whole numbers.
constexpr std::array<std::string_view, 11> kColumns{
    "gpus", "global_batch", "micro_batch", "hidden", "heads",       "layers",
    "seq",  "tp",           "dp",          "pp",     "iteration_ms"};

// A line of vTrain's table; `whole` has the columns in the order of kColumns.
struct Line {
  std::array<std::int64_t, 10> whole{};
  double iteration_ms = 0.0;
};

template <class Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Line line_of(const std::string& file, std::size_t number, std::string text) {
  if (!text.empty() && text.back() == '\r') text.pop_back();
  Line line;
  std::istringstream cells(text);
  std::string cell;
  std::size_t column = 0;
  bool sound = true;
  for (; std::getline(cells, cell, ',') && column < kColumns.size(); ++column) {
    sound = sound && (column < line.whole.size() ? parse(cell, line.whole[column])
                                                 : parse(cell, line.iteration_ms));
  }
  if (sound && column == kColumns.size()) return line;
  throw InputError(
      Problem{fmt::format("{}:{}", file, number), "", "is no line of vTrain's table",
              fmt::format("{} numbers: {}", kColumns.size(), fmt::join(kColumns, ","))});
}

// The row of vTrain's table as a description: GPT with 1F1B, activation recomputation, unfused
// attention, fp16 and a vocabulary of 50257, as the documentation of the table states.
Json description(const Line& line) {
  const auto [gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp] = line.whole;
  return {{"model",
           {{"name", fmt::format("GPT h{} l{}", hidden, layers)},
            {"arch", "dense"},
            {"layers", layers},
            {"hidden", hidden},
            {"heads", heads},
            {"kv_heads", heads},
            {"head_dim", heads > 0 ? hidden / heads : 0},
            {"ffn", 4 * hidden},
            {"gated_mlp", false},
            {"vocab", 50257}}},
          {"hardware", {{"gpu", "A100-SXM4-80GB"}, {"nics", "single node"}, {"num_gpus", gpus}}},
          {"framework", "Megatron-DeepSpeed (vTrain, one node)"},
          {"precision", "FP16"},
          {"parallel", {{"tp", tp}, {"pp", pp}, {"dp", dp}, {"zero_stage", 0}}},
          {"batch", {{"micro_batch", micro}, {"global_batch", batch}, {"seq_len", seq}}},
          {"recompute", "full"}};
}

// The first line is the heading; `number` is the line number in the file.
std::vector<MeasuredRow> read_vtrain_table(const std::string& file, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::vector<MeasuredRow> rows;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const Line read = line_of(file, number, line);
    const auto [gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp] = read.whole;
    rows.push_back(
        {.id = fmt::format("vtrain_single-n{}-h{}-a{}-l{}-s{}-t{}-d{}-p{}-m{}-g{}-{}", gpus, hidden,
                           heads, layers, seq, tp, dp, pp, micro, batch, number),
         .source = "vtrain_single",
         .description = description(read),
         .step_time_s = read.iteration_ms / 1e3});
  }
  return rows;
}

}  // namespace

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& pointer,
                         const std::string& problem, const std::string& hint) {
  throw InputError(Problem{file, pointer, problem, hint});
}

// The measured step time, or 0 without one. The data set recommends its `headline` for comparison.
// Otherwise the time is the published one, or follows from the throughput: the tokens of a global
// batch over those of all GPUs in a second.
double measured_time(const Json& row) {
  for (const char* place : {"/headline/iter_time_s", "/measured/iter_time_s"}) {
    const double seconds = number_at(row, place, 0.0);
    if (seconds > 0.0) return seconds;
  }
  const double rate = number_at(row, "/headline/tokens_per_s_per_gpu",
                                number_at(row, "/measured/tokens_per_s_per_gpu", 0.0));
  const double tokens =
      number_at(row, "/batch/global_batch", 0.0) * number_at(row, "/batch/seq_len", 0.0);
  const double gpus = number_at(row, "/hardware/num_gpus", 0.0);
  return rate > 0.0 && gpus > 0.0 ? tokens / (rate * gpus) : 0.0;
}

// Capitalises the data type: "bf16 (amp)" becomes "BF16 (amp)". Tables write types so, and they are
// compared in this form.
void capitalise_type(Json& row) {
  const std::string said = text_at(row, "/precision");
  const std::string type = said.substr(0, said.find(' '));
  for (const char* known : {"BF16", "FP16", "FP32", "FP8", "MXFP8", "NVFP4"}) {
    const bool same = std::ranges::equal(
        type, std::string_view(known), {}, [](unsigned char c) { return std::toupper(c); },
        [](unsigned char c) { return static_cast<int>(c); });
    if (same) row["precision"] = known + said.substr(type.size());
  }
}

MeasuredRow row_of(const std::string& file, std::size_t number, const Json& json) {
  const std::string pointer = fmt::format("/{}", number);
  if (!json.is_object()) refuse(file, pointer, "must be an object", "one row of the data set");
  MeasuredRow row;
  row.id = text_at(json, "/id");
  if (row.id.empty()) refuse(file, pointer + "/id", "is missing", "it must be a text");
  // An id begins with its source: "titan-llama3_8b-h100".
  row.source = row.id.substr(0, row.id.find('-'));
  row.complete = truth_at(json, "/complete", true);
  row.step_time_s = measured_time(json);
  const double peak = number_at(json, "/measured/peak_mem_allocated_gib", 0.0);
  if (peak > 0.0) row.peak_memory_gib = peak;
  row.description = json;
  capitalise_type(row.description);
  return row;
}

bool is_vtrain_table(const std::string& text) {
  const std::string heading = text.substr(0, text.find('\n'));
  return heading.starts_with("gpus,") && heading.find("iteration_ms") != std::string::npos;
}

std::vector<MeasuredRow> read_rows(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string text = read_file(file);
  if (is_vtrain_table(text)) return read_vtrain_table(name, text);
  const Json document = parse_json(name, text);
  const bool wrapped = document.is_object() && document.contains("rows");
  const Json& rows = wrapped ? document.at("rows") : document;
  if (!rows.is_array()) {
    refuse(name, wrapped ? "/rows" : "", "is no list of measured runs",
           "a JSON array of rows, or vTrain's table as CSV");
  }
  std::vector<MeasuredRow> all;
  for (std::size_t number = 0; number < rows.size(); ++number) {
    all.push_back(row_of(name, number, rows[number]));
  }
  return all;
}

}  // namespace

std::vector<MeasuredRow> read_dataset(const std::filesystem::path& file) {
  std::vector<MeasuredRow> rows = read_rows(file);
  if (const auto machine = machine_file(file))
    for (MeasuredRow& row : rows) row.machine = machine->string();
  return rows;
}

}  // namespace trainyard
