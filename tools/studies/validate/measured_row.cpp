#include "tools/studies/validate/measured_row.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, kFeatures> kNames{
    "source", "gpu",       "parallelism", "precision", "scale", "framework",
    "model",  "recompute", "operation",   "size",      "group", "replica"};

// The text up to the first of the letters.
std::string until(const std::string& text, const char* letters) {
  std::string part = text.substr(0, text.find_first_of(letters));
  while (!part.empty() && part.back() == ' ') part.pop_back();
  return part;
}

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

// "titan-llama3_8b-h100 H100 torchtitan (FSDP2) BF16 none tp1 pp1 vp1 cp1 ep1 zero1_group1 2x8192";
// no commas, which part columns.
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
  }
  return {};
}

}  // namespace trainyard
