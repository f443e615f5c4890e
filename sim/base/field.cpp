#include "sim/base/field.hpp"

#include <algorithm>
#include <limits>

namespace trainyard::field {

bool names_json_file(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().ends_with(".json");
}

// --- reading ---

std::optional<std::vector<std::int64_t>> read_wholes(JsonObject& object, std::string_view key,
                                                     std::int64_t least, std::int64_t most) {
  const Json& list = object.raw(key);
  if (list.is_null()) return std::nullopt;
  const auto in_range = [&](const Json& entry) {
    return entry.is_number_integer() && entry >= least && entry <= most;
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), in_range)) {
    object.report(key, "must be a list of whole numbers, each at least " + std::to_string(least) +
                           " and at most " + std::to_string(most));
    return std::nullopt;
  }
  return list.get<std::vector<std::int64_t>>();
}

double read_real(JsonObject& object, std::string_view key, const NumberRule& rule, bool positive) {
  if (!object.has(key)) return rule.fallback.value();
  const double value = object.number(key, rule);
  if (positive && !(value > 0.0))
    object.report(key, "must be more than 0, not " + shown(object.raw(key)));
  return value;
}

// --- writing ---

Json to_json(std::int64_t value) { return value; }
Json to_json(std::uint64_t value) { return value; }
Json to_json(double value) { return value; }
Json to_json(bool value) { return value; }
Json to_json(const std::string& value) { return value; }
Json to_json(const std::vector<std::string>& value) { return value; }
Json to_json(const std::vector<std::int64_t>& value) { return value; }
Json to_json(const std::vector<std::pair<std::string, std::int64_t>>& value) {
  Json json;
  for (const auto& [name, number] : value) json[name] = number;
  return json;
}

// --- schemas ---

Json whole_schema(std::int64_t least, std::int64_t most, std::optional<std::int64_t> fallback) {
  Json json{{"type", "integer"}, {"minimum", least}, {"maximum", most}};
  if (fallback) json["default"] = *fallback;
  return json;
}

Json real_schema(double least, double most, bool positive, double fallback) {
  return {{"type", "number"},
          {positive ? "exclusiveMinimum" : "minimum", least},
          {"maximum", most},
          {"default", fallback}};
}

Json seed_schema(std::uint64_t fallback) {
  return {{"type", "integer"},
          {"minimum", 0},
          {"maximum", std::numeric_limits<std::int64_t>::max()},
          {"default", fallback}};
}

Json flag_schema(bool fallback) { return {{"type", "boolean"}, {"default", fallback}}; }

Json text_schema() { return {{"type", "string"}}; }

Json texts_schema() { return {{"type", "array"}, {"items", text_schema()}}; }

Json wholes_schema(std::int64_t least, std::int64_t most) {
  return {{"type", "array"}, {"items", whole_schema(least, most, {})}};
}

Json named_wholes_schema(std::int64_t least, std::int64_t most) {
  return {{"type", "object"}, {"additionalProperties", whole_schema(least, most, {})}};
}

Json choice_schema(const std::vector<std::string>& choices, bool or_file,
                   const std::optional<std::string>& fallback) {
  const Json words{{"type", "string"}, {"enum", choices}};
  Json json = words;
  if (or_file) json = {{"anyOf", Json::array({words, pattern_schema("\\.json$")})}};
  if (fallback) json["default"] = *fallback;
  return json;
}

Json word_list_schema(const std::vector<std::string>& choices,
                      const std::vector<std::string>& fallback) {
  return {
      {"type", "array"}, {"items", {{"type", "string"}, {"enum", choices}}}, {"default", fallback}};
}

Json optional_number_schema(double least, double most) {
  Json json{{"type", "number"}, {"minimum", least}};
  if (most != std::numeric_limits<double>::infinity()) json["maximum"] = most;
  return json;
}

Json pattern_schema(const std::string& pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

void ObjectSchema::add(std::string_view key, std::string_view meaning, const Json& entry,
                       bool required) {
  Json described{{"description", meaning}};
  described.update(entry);
  properties_[std::string(key)] = std::move(described);
  if (required) required_.push_back(key);
}

Json ObjectSchema::json() const {
  Json json{{"type", "object"}, {"additionalProperties", false}};
  json["properties"] = properties_;
  if (!required_.empty()) json["required"] = required_;
  return json;
}

}  // namespace trainyard::field
