#include "scenarios/import/training/config_document.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {

// The three syntaxes become one JSON document: JSON by its own parser, YAML and TOML by a walk over
// the nodes of their libraries, which also records the line of every value. References between
// values are replaced afterwards, when all values are known.
namespace {

using Json = nlohmann::ordered_json;

// No configuration is larger. Aliases of YAML repeat parts, so a short file can describe a large
// document.
constexpr std::size_t kBytesMost = std::size_t{2} << 20U;
constexpr std::size_t kValuesMost = 20'000;
constexpr std::size_t kDepthMost = 100;

[[noreturn]] void refuse(const std::string& file, const std::string& problem,
                         const std::string& hint = "") {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

// Counts the values of a document that is being converted, and refuses one that grows too large.
class Budget {
 public:
  explicit Budget(std::string file) : file_(std::move(file)) {}
  void take(std::size_t depth) {
    if (++values_ > kValuesMost)
      refuse(file_, fmt::format("holds more than {} values", kValuesMost),
             "do its aliases refer to each other?");
    if (depth > kDepthMost) refuse(file_, fmt::format("is nested deeper than {}", kDepthMost));
  }

 private:
  std::string file_;
  std::size_t values_ = 0;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Returns the number that a plain scalar spells, with underscores between digits or without.
std::optional<Json> number_of(std::string text) {
  if (text.empty() || text.find_first_not_of("+-.0123456789_eE") != std::string::npos) return {};
  if (text.find_first_of("0123456789") == std::string::npos) return {};
  std::erase(text, '_');
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [at, error] = std::from_chars(begin, end, whole);
      error == std::errc() && at == end)
    return Json(whole);
  double real = 0.0;
  if (const auto [at, error] = std::from_chars(begin, end, real);
      error == std::errc() && at == end && std::isfinite(real))
    return Json(real);
  return {};
}

// `plain`: the scalar is not in quotes, so it may be something other than text.
Json scalar_of(const std::string& text, bool plain) {
  if (!plain) return text;
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return false;
  return number_of(text).value_or(Json(text));
}

std::size_t line_of(const YAML::Node& node) {
  return node.Mark().line < 0 ? 0 : static_cast<std::size_t>(node.Mark().line) + 1;
}

// Converts the nodes of yaml-cpp.
class FromYaml {
 public:
  explicit FromYaml(ConfigDocument& document) : document_(document), budget_(document.file) {}

  Json value_of(const YAML::Node& node, const std::string& path, std::size_t depth) {
    budget_.take(depth);
    if (!path.empty()) document_.lines[path] = line_of(node);
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        // yaml-cpp gives a scalar in quotes the tag "!".
        return scalar_of(node.Scalar(), node.Tag() != "!");
      case YAML::NodeType::Sequence:
        return list_of(node, path, depth);
      case YAML::NodeType::Map:
        return object_of(node, path, depth);
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
    }
    return nullptr;
  }

 private:
  Json list_of(const YAML::Node& node, const std::string& path, std::size_t depth) {
    Json list = Json::array();
    std::size_t index = 0;
    for (const YAML::Node& one : node)
      list.push_back(value_of(one, joined(path, std::to_string(index++)), depth + 1));
    return list;
  }

  Json object_of(const YAML::Node& node, const std::string& path, std::size_t depth) {
    Json object = Json::object();
    std::vector<YAML::Node> merged;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar())
        refuse(document_.file, fmt::format("line {}: a key is not text", line_of(entry.first)));
      const std::string& key = entry.first.Scalar();
      if (key == "<<") {
        merged.push_back(entry.second);
        continue;
      }
      const std::string at = joined(path, key);
      if (object.contains(key))
        document_.notes.push_back(fmt::format("{} is there twice: line {} replaces line {}", at,
                                              line_of(entry.first), document_.lines[at]));
      object[key] = value_of(entry.second, at, depth + 1);
      document_.lines[at] = line_of(entry.first);
    }
    // Own keys have precedence over merged ones ("<<"), wherever they are in the mapping.
    for (const YAML::Node& one : merged) merge(one, object, path, depth);
    return object;
  }

  // Adds the keys of a merged mapping, or of a list of them, that the object does not have itself.
  void merge(const YAML::Node& node, Json& object, const std::string& path, std::size_t depth) {
    budget_.take(depth);
    if (node.IsSequence())
      for (const YAML::Node& one : node) merge(one, object, path, depth + 1);
    if (!node.IsMap()) return;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar() || object.contains(entry.first.Scalar())) continue;
      const std::string& key = entry.first.Scalar();
      if (key == "<<")
        merge(entry.second, object, path, depth + 1);
      else
        object[key] = value_of(entry.second, joined(path, key), depth + 1);
    }
  }

  ConfigDocument& document_;
  Budget budget_;
};

void read_yaml(const std::string& text, ConfigDocument& document) {
  try {
    const std::vector<YAML::Node> all = YAML::LoadAll(text);
    if (all.size() > 1)
      refuse(document.file, fmt::format("holds {} documents", all.size()), "keep one of them");
    if (!all.empty()) document.values = FromYaml(document).value_of(all.front(), "", 0);
  } catch (const YAML::DeepRecursion& error) {
    refuse(document.file,
           fmt::format("line {}: is nested deeper than {}", error.mark.line + 1, error.depth()));
  } catch (const YAML::Exception& error) {
    refuse(document.file, fmt::format("line {}, column {}: {}", error.mark.line + 1,
                                      error.mark.column + 1, error.msg));
  }
}

// Converts the nodes of toml++. Dates become text.
class FromToml {
 public:
  explicit FromToml(ConfigDocument& document) : document_(document), budget_(document.file) {}

  Json value_of(const toml::node& node, const std::string& path, std::size_t depth) {
    budget_.take(depth);
    if (!path.empty()) document_.lines[path] = node.source().begin.line;
    if (const toml::table* table = node.as_table()) {
      Json object = Json::object();
      for (const auto& [key, value] : *table) {
        const std::string name(key.str());
        object[name] = value_of(value, joined(path, name), depth + 1);
      }
      return object;
    }
    if (const toml::array* array = node.as_array()) {
      Json list = Json::array();
      for (const toml::node& one : *array)
        list.push_back(value_of(one, joined(path, std::to_string(list.size())), depth + 1));
      return list;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* whole = node.as_integer()) return whole->get();
    if (const auto* real = node.as_floating_point()) return real->get();
    std::ostringstream date;
    date << toml::node_view<const toml::node>(node);
    return date.str();
  }

 private:
  ConfigDocument& document_;
  Budget budget_;
};

void read_toml(const std::string& text, ConfigDocument& document) {
  try {
    const toml::table table = toml::parse(text);
    document.values = FromToml(document).value_of(table, "", 0);
  } catch (const toml::parse_error& error) {
    refuse(document.file, fmt::format("line {}, column {}: {}", error.source().begin.line,
                                      error.source().begin.column, error.description()));
  }
}

// Replaces the references of OmegaConf by the values that they name.
class References {
 public:
  explicit References(Json& root) : root_(root) {}

  void replace(Json& value, const std::vector<std::string>& path) {
    if (value.is_structured()) {
      for (auto& [key, one] : value.items()) {
        std::vector<std::string> below = path;
        below.push_back(key);
        replace(one, below);
      }
      return;
    }
    constexpr int kLevels = 8;  // a reference may name a reference
    std::vector<std::string> at = path;
    for (int level = 0; level < kLevels && value.is_string(); ++level) {
      const auto named = target(value.get<std::string>(), at);
      const Json* found = named ? find(*named) : nullptr;
      if (found == nullptr || found->is_structured()) return;
      value = Json(*found);
      // A value that is itself a relative reference counts from the place where it is written.
      at = *named;
    }
  }

 private:
  // Returns the path that a value of the form ${a.b}, ${.b} or ${..b} names; nothing for others.
  // Each leading dot goes up by one: in model.ffn.size, ${.b} is model.ffn.b and ${..b} is model.b.
  static std::optional<std::vector<std::string>> target(const std::string& text,
                                                        const std::vector<std::string>& path) {
    if (!text.starts_with("${") || !text.ends_with('}')) return {};
    std::string_view name = std::string_view(text).substr(2, text.size() - 3);
    if (name.empty() || name.find_first_of("${}: ,[]") != std::string_view::npos) return {};
    std::vector<std::string> named;
    if (name.starts_with('.')) {
      named = path;
      while (name.starts_with('.')) {
        if (named.empty()) return {};
        named.pop_back();
        name.remove_prefix(1);
      }
    }
    std::istringstream keys{std::string(name)};
    for (std::string key; std::getline(keys, key, '.');) named.push_back(key);
    return named;
  }

  [[nodiscard]] const Json* find(const std::vector<std::string>& path) const {
    const Json* at = &root_;
    for (const std::string& key : path) {
      if (!at->is_object() || !at->contains(key)) return nullptr;
      at = &at->at(key);
    }
    return at;
  }

  Json& root_;
};

enum class Syntax : std::uint8_t { Braces, Toml, Yaml };

Syntax syntax_of(const std::string& text, const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending == ".json") return Syntax::Braces;
  if (ending == ".toml") return Syntax::Toml;
  if (ending == ".yaml" || ending == ".yml") return Syntax::Yaml;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? Syntax::Braces : Syntax::Yaml;
}

}  // namespace

ConfigDocument read_config(const std::string& text, const std::string& file) {
  if (text.size() > kBytesMost)
    refuse(file, fmt::format("is larger than {} MiB, as no configuration is", kBytesMost >> 20U));
  ConfigDocument document{.file = file, .values = {}};
  switch (syntax_of(text, file)) {
    case Syntax::Braces:
      document.values = parse_json(file, text);
      break;
    case Syntax::Toml:
      read_toml(text, document);
      break;
    case Syntax::Yaml:
      read_yaml(text, document);
      break;
  }
  if (!document.values.is_object())
    refuse(file, "is not a configuration: it holds no keys with values");
  References(document.values).replace(document.values, {});
  return document;
}

}  // namespace trainyard
