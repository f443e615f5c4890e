#include "scenarios/import/training/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_string() && value.get<std::string>() == "???");
}

// Collects the paths of all values that say something. A list is one value.
void add_paths(const Json& value, const std::string& path, std::vector<std::string>& paths) {
  if (says_nothing(value) || (value.is_string() && value.get<std::string>().empty())) return;
  if (value.is_structured() && value.empty()) return;
  if (!value.is_object()) {
    paths.push_back(path);
    return;
  }
  for (const auto& [key, one] : value.items())
    add_paths(one, path.empty() ? key : path + "." + key, paths);
}

// "data" covers data.path, but not data_stages; "data*" covers both.
bool covers(std::string_view prefix, std::string_view path) {
  if (prefix.ends_with('*')) return path.starts_with(prefix.substr(0, prefix.size() - 1));
  return path == prefix || (path.starts_with(prefix) && path[prefix.size()] == '.');
}

}  // namespace

const Json* Config::find(const std::string& path) const {
  const Json* at = &document_.values;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return says_nothing(*at) ? nullptr : at;
}

const Json* Config::read(const std::string& path) {
  read_.insert(path);
  return find(path);
}

std::string Config::place(const std::string& path) const {
  const auto line = document_.lines.find(path);
  if (line == document_.lines.end() || line->second == 0) return path;
  return fmt::format("line {}: {}", line->second, path);
}

void Config::refuse(const std::string& path, const std::string& problem,
                    const std::string& hint) const {
  throw InputError(Problem{.file = document_.file,
                           .pointer = {},
                           .problem = fmt::format("{} {}", place(path), problem),
                           .hint = hint});
}

std::optional<double> Config::number(const std::string& path) {
  const Json* value = read(path);
  if (value == nullptr) return {};
  if (!value->is_number()) refuse(path, fmt::format("is {}, which is no number", value->dump()));
  return value->get<double>();
}

std::optional<std::int64_t> Config::integer(const std::string& path) {
  constexpr double kMost = 1e9;  // products of two are still exact
  const std::optional<double> value = number(path);
  if (!value) return {};
  if (!(std::abs(*value) <= kMost)) refuse(path, fmt::format("is {}, more than {}", *value, kMost));
  if (*value != std::trunc(*value))
    refuse(path, fmt::format("is {}, which is no whole number", *value));
  return static_cast<std::int64_t>(*value);
}

std::optional<std::string> Config::text(const std::string& path) {
  const Json* value = read(path);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  // A number or a flag as JSON writes it: an unquoted NO of YAML becomes "false".
  if (value->is_primitive()) return value->dump();
  // An object of Python, as Hydra and Megatron-Bridge write it.
  if (value->is_object() && value->contains("_target_") && value->at("_target_").is_string()) {
    read_.insert(path + "._target_");
    read_.insert(path + "._call_");
    return value->at("_target_").get<std::string>();
  }
  refuse(path, "is not a single value");
}

// Programs write flags as true, as "True" in quotes, or as 1.
std::optional<bool> Config::flag(const std::string& path) {
  const Json* value = read(path);
  if (value == nullptr) return {};
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_string()) {
    std::string word = value->get<std::string>();
    std::ranges::transform(word, word.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    if (word == "true") return true;
    if (word == "false") return false;
  }
  if (value->is_number_integer() && (*value == 0 || *value == 1)) return *value == 1;
  refuse(path, fmt::format("is {}, which is neither true nor false", value->dump()));
}

std::vector<std::string> Config::texts(const std::string& path) {
  const Json* value = read(path);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse(path, "is no list");
  std::vector<std::string> all;
  for (const Json& one : *value)
    all.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return all;
}

Json Config::raw(const std::string& path) {
  const Json* value = read(path);
  if (value == nullptr) return nullptr;
  std::vector<std::string> below;
  add_paths(*value, path, below);
  read_.insert(below.begin(), below.end());
  return *value;
}

std::int64_t Config::need(const std::string& path) {
  const std::optional<std::int64_t> value = integer(path);
  if (!value) refuse(path, "is not there", "it is needed to make a scenario");
  return *value;
}

std::int64_t Config::size(const std::string& path, std::int64_t fallback) {
  const std::int64_t value = get(path, fallback);
  if (value < 1) refuse(path, fmt::format("is {}", value), "it must be at least 1");
  return value;
}

std::vector<std::string> Config::paths() const {
  std::vector<std::string> all;
  add_paths(document_.values, "", all);
  return all;
}

std::vector<std::string> Config::not_looked_at(
    std::span<const std::string_view> without_cost) const {
  std::vector<std::string> left = paths();
  std::erase_if(left, [&](const std::string& path) {
    if (read_.contains(path)) return true;
    return std::ranges::any_of(without_cost,
                               [&](std::string_view prefix) { return covers(prefix, path); });
  });
  return left;
}

}  // namespace trainyard
