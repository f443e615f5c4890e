#include "scenarios/reader/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "sim/base/json_parse.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string option_text(const Override& change) {
  return fmt::format("--set {}={}", change.path, change.value);
}

[[noreturn]] void refuse(const Override& change, std::string pointer, std::string problem,
                         std::string hint = "") {
  throw InputError(
      Problem{option_text(change), std::move(pointer), std::move(problem), std::move(hint)});
}

// Reads the short forms that people type for numbers: 8k is 8 x 1024 and 1m 1024 times that (as
// sequence lengths are counted), 200G is a network's rate of 200 Gb/s, and 2:1 is the ratio 2.
std::optional<Json> short_form(std::string_view text) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number > 0.0)) return {};
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (rest == ":1") return number;
  if (rest == "G") return fmt::format("{} Gb/s", number);
  const double factor = rest == "k" || rest == "K" ? 0x1p10 : rest == "m" ? 0x1p20 : 0.0;
  const double whole = number * factor;
  if (factor == 0.0 || whole != std::floor(whole) || whole > 0x1p53) return {};
  return static_cast<std::int64_t>(whole);
}

// Parses a value as JSON where that is possible, so that 8, true, [..] and {..} have their JSON
// meaning. Text that is not JSON and does not begin like a structure is a short form, or a word
// ("selective", "500 ns").
Json parse_value(const Override& change) {
  try {
    return parse_json(option_text(change), change.value);
  } catch (const InputError& error) {
    const auto first = change.value.find_first_not_of(' ');
    const char begin = first == std::string::npos ? ' ' : change.value[first];
    // Only a key that stands twice gives a problem with a pointer. The text is JSON then, and no
    // short form.
    const bool duplicate_key = !error.problems().front().pointer.empty();
    if (duplicate_key || begin == '{' || begin == '[' || begin == '"') throw;
    return short_form(change.value).value_or(change.value);
  }
}

std::vector<std::string> split(const std::string& path, char separator) {
  std::vector<std::string> keys;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = path.find(separator, begin);
    keys.push_back(path.substr(begin, end - begin));
    if (end == std::string::npos) return keys;
    begin = end + 1;
  }
}

std::vector<std::string> keys_of(const Override& change) {
  const bool slashes = change.path.find('/') != std::string::npos;
  const std::string path = change.path.starts_with('/') ? change.path.substr(1) : change.path;
  std::vector<std::string> keys = split(path, slashes ? '/' : '.');
  if (std::find(keys.begin(), keys.end(), "") != keys.end()) {
    refuse(change, "", "the path has an empty key", "write --set parallelism.tensor=8");
  }
  return keys;
}

// Returns the element of an array that a key such as "0" names.
Json& element(Json& array, const std::string& key, const Override& change,
              const std::string& pointer) {
  std::size_t index = array.size();
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index >= array.size()) {
    refuse(change, pointer, fmt::format("the list there has {} elements", array.size()),
           "count from 0");
  }
  return array[index];
}

// Sets the value below `here` and creates objects on the way.
void set(Json& here, std::span<const std::string> keys, const Override& change,
         const std::string& pointer, const Json& value) {
  const std::string& key = keys.front();
  const std::string place = join_pointer(pointer, key);
  if (here.is_array()) {
    Json& chosen = element(here, key, change, place);
    if (keys.size() == 1) {
      chosen = value;
    } else {
      set(chosen, keys.subspan(1), change, place, value);
    }
    return;
  }
  if (!here.is_object()) {
    refuse(change, pointer, fmt::format("is {}, which has no \"{}\"", shown(here), key),
           "give the whole value instead");
  }
  if (keys.size() > 1) {
    if (!here.contains(key)) here[key] = Json::object();
    set(here[key], keys.subspan(1), change, place, value);
  } else if (!value.is_null()) {
    here[key] = value;
  } else if (here.erase(key) == 0) {
    refuse(change, place, "there is nothing to remove", "null takes a key out of the file");
  }
}

}  // namespace

std::string override_pointer(const std::string& path) {
  std::string pointer;
  for (const std::string& key : keys_of({path, ""})) pointer = join_pointer(pointer, key);
  return pointer;
}

Json with_override(Json document, const Override& change) {
  set(document, keys_of(change), change, "", parse_value(change));
  return document;
}

std::vector<Problem> attribute_to_overrides(std::vector<Problem> problems,
                                            const std::vector<Override>& changes) {
  for (Problem& problem : problems) {
    for (const Override& change : changes) {
      const std::string pointer = override_pointer(change.path);
      if (problem.pointer == pointer || problem.pointer.starts_with(pointer + "/")) {
        problem.file = option_text(change);
      }
    }
  }
  return problems;
}

}  // namespace trainyard
