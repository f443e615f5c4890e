#include "sim/base/json_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "sim/base/check.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

namespace {
using Json = nlohmann::ordered_json;
}

// The keys of one object that the program has read or queried so far.
struct AskedKeys {
  std::set<std::string, std::less<>> read;  // these, and unknown keys already reported
  std::vector<std::string> known;           // in the order of the queries, for "did you mean"
  std::set<std::string, std::less<>> known_once;
  // An index for an object with many keys, because the document searches them linearly.
  std::unordered_map<std::string_view, const Json*> values;
};

struct JsonFile::State {
  std::string name;
  Json document;
  std::vector<Problem> problems;
  std::map<std::string, std::string> remedies;
  std::map<std::string, std::string> word_remedies;
  // The objects that were opened, by JSON pointer. An object that was never opened was rejected or
  // ignored, so its keys are not checked.
  std::map<std::string, AskedKeys, std::less<>> opened;

  void knows(const std::string& pointer, std::string_view key) {
    AskedKeys& asked = opened[pointer];
    if (asked.known_once.contains(key)) return;
    asked.known_once.emplace(key);
    asked.known.emplace_back(key);
  }
};

namespace {

constexpr std::size_t kKeysToIndex = 32;

// A key that the root object may always have: the schema for editors.
constexpr std::string_view kSchemaKey = "$schema";

std::string bounds(const std::string& least, const std::string& most) {
  if (least == most) return least;
  if (most.empty()) return fmt::format("at least {}", least);
  if (least.empty()) return fmt::format("at most {}", most);
  return fmt::format("between {} and {}", least, most);
}

// JSON may also write whole numbers as 8.0 or 1e6. JSON Schema accepts these as integers, so the
// reader does too.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return number <= most ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  // Above 2^53 a double does not represent every whole number.
  const bool exact = std::trunc(number) == number && std::abs(number) <= 0x1p53;
  return exact ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

// Normalises "--Tensor-Model-Parallel-Size" to "tensor_model_parallel_size" for the lookup.
std::string as_word(std::string_view key) {
  return normalised_word(key.substr(std::min(key.find_first_not_of('-'), key.size())));
}

// `free` has the known keys that are absent from the object.
std::string unknown_key_hint(const JsonFile::State& state, const std::vector<std::string>& free,
                             const AskedKeys& asked, const std::string& key) {
  if (const auto remedy = state.remedies.find(as_word(key)); remedy != state.remedies.end()) {
    return remedy->second;
  }
  if (const std::string near = nearest(key, free); !near.empty()) {
    return fmt::format("did you mean \"{}\"?", near);
  }
  return asked.known.empty() ? "" : fmt::format("known here: {}", fmt::join(asked.known, ", "));
}

// Finds a key: linearly in a small object, else with an index that is built on first use.
const Json* value_of(const Json& object, AskedKeys& asked, std::string_view key) {
  if (object.size() <= kKeysToIndex) {
    const auto entry = object.find(key);
    return entry == object.end() ? nullptr : &*entry;
  }
  if (asked.values.empty())
    for (const auto& [name, value] : object.get_ref<const Json::object_t&>())
      asked.values.emplace(name, &value);
  const auto entry = asked.values.find(key);
  return entry == asked.values.end() ? nullptr : entry->second;
}

// Reports the keys that were not read, and marks them as read, so that each is reported once.
void report_unknown_keys(JsonFile::State& state, const std::string& pointer, AskedKeys& asked) {
  const Json& object = state.document.at(Json::json_pointer(pointer));
  std::vector<std::string> free;
  for (const std::string& known : asked.known) {
    // A key that the object has is not the one that was meant.
    if (value_of(object, asked, known) == nullptr) free.push_back(known);
  }
  for (const auto& [key, value] : object.items()) {
    if (asked.read.contains(key)) continue;
    state.problems.push_back({state.name, join_pointer(pointer, key), "unknown key",
                              unknown_key_hint(state, free, asked, key)});
    asked.read.insert(key);
  }
}

// Compares JSON pointers by whole path segments.
bool is_at_or_below(std::string_view pointer, std::string_view above) {
  return pointer.starts_with(above) &&
         (pointer.size() == above.size() || pointer[above.size()] == '/');
}

}  // namespace

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return text;
  std::size_t cut = kMost;
  // Not inside a character.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return text.substr(0, cut) + "...";
}

// Escapes "~" as "~0" and "/" as "~1" (RFC 6901).
std::string join_pointer(std::string_view pointer, std::string_view key) {
  std::string text(pointer);
  text += '/';
  for (const char letter : key) {
    if (letter == '~') {
      text += "~0";
    } else if (letter == '/') {
      text += "~1";
    } else {
      text += letter;
    }
  }
  return text;
}

JsonFile::JsonFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonFile::JsonFile(JsonFile&&) noexcept = default;
JsonFile& JsonFile::operator=(JsonFile&&) noexcept = default;
JsonFile::~JsonFile() = default;

JsonFile JsonFile::read(const std::filesystem::path& file) {
  return parse(file.string(), read_file(file));
}

JsonFile JsonFile::parse(std::string name, std::string_view text) {
  auto state = std::make_unique<State>();
  state->document = parse_json(name, text);
  state->name = std::move(name);
  return JsonFile(std::move(state));
}

JsonObject JsonFile::root() {
  JsonObject root(*state_, nullptr, "");
  if (!state_->document.is_object()) {
    report("", fmt::format("must be an object, not {}", shown(state_->document)));
    return root;
  }
  root = root.child(state_->document, "");
  root.ignore(kSchemaKey);
  return root;
}

Json& JsonFile::document() { return state_->document; }
const std::string& JsonFile::name() const { return state_->name; }

void JsonFile::report(std::string pointer, std::string problem, std::string hint) {
  state_->problems.push_back(
      {state_->name, std::move(pointer), std::move(problem), std::move(hint)});
}

void JsonFile::report(const std::vector<Problem>& problems) {
  state_->problems.insert(state_->problems.end(), problems.begin(), problems.end());
}

bool JsonFile::has_problems() const { return !state_->problems.empty(); }

void JsonFile::explain_unknown(std::map<std::string, std::string> remedies) {
  state_->remedies = std::move(remedies);
}

void JsonFile::explain_unknown_words(std::map<std::string, std::string> remedies) {
  state_->word_remedies = std::move(remedies);
}

bool JsonFile::is_sound(std::string_view pointer) const {
  return std::none_of(
      state_->problems.begin(), state_->problems.end(), [&](const Problem& problem) {
        return is_at_or_below(problem.pointer, pointer) || is_at_or_below(pointer, problem.pointer);
      });
}

void JsonFile::report_unknown_keys() {
  for (auto& [pointer, asked] : state_->opened) {
    trainyard::report_unknown_keys(*state_, pointer, asked);
  }
}

// Unknown keys are reported last, when all readers have queried their keys.
void JsonFile::finish() {
  report_unknown_keys();
  if (has_problems()) throw InputError(std::move(state_->problems));
}

JsonObject::JsonObject(JsonFile::State& state, const Json* value, std::string pointer)
    : state_(&state), value_(value), pointer_(std::move(pointer)) {}

std::string JsonObject::pointer(std::string_view key) const {
  return key.empty() ? pointer_ : join_pointer(pointer_, key);
}

// The key counts as known, for "did you mean", but not as read.
bool JsonObject::has(std::string_view key) const {
  if (value_ == nullptr) return false;
  state_->knows(pointer_, key);
  return value_of(*value_, state_->opened[pointer_], key) != nullptr;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  if (value_ == nullptr) return names;
  for (const auto& [key, value] : value_->items()) names.push_back(key);
  return names;
}

void JsonObject::report(std::string_view key, std::string problem, std::string hint) {
  state_->problems.push_back({state_->name, pointer(key), std::move(problem), std::move(hint)});
}

void JsonObject::report_kind(std::string_view key, std::string_view what, const Json& value) {
  report(key, fmt::format("must be {}, not {}", what, shown(value)));
}

// All typed readers go through this function. It records the key as known, for "did you mean", and
// as read, for the check of unknown keys.
const Json* JsonObject::find(std::string_view key, bool required, std::string_view what) {
  if (value_ != nullptr) {
    state_->knows(pointer_, key);
    AskedKeys& asked = state_->opened[pointer_];
    if (const Json* value = value_of(*value_, asked, key); value != nullptr) {
      asked.read.emplace(key);
      return value;
    }
  }
  if (required) report(key, "is missing", fmt::format("it must be {}", what));
  return nullptr;
}

const Json& JsonObject::raw(std::string_view key) {
  static const Json null;
  const Json* value = find(key, false, "");
  return value == nullptr ? null : *value;
}

void JsonObject::ignore(std::string_view key) {
  if (value_ == nullptr) return;
  AskedKeys& asked = state_->opened[pointer_];
  if (value_of(*value_, asked, key) != nullptr) asked.read.emplace(key);
}

JsonObject JsonObject::child(const Json& value, std::string pointer) {
  // The entry marks the object as opened, so that its unread keys are reported.
  state_->opened[pointer];
  return {*state_, &value, std::move(pointer)};
}

// An absent object is not a problem by itself: readers report the required keys that it lacks.
JsonObject JsonObject::object(std::string_view key) {
  const Json* value = find(key, false, "an object");
  if (value != nullptr && value->is_object()) return child(*value, pointer(key));
  if (value != nullptr) report_kind(key, "an object", *value);
  return {*state_, nullptr, pointer(key)};
}

// The merged object takes the place of the original in the document, so that pointers in messages
// and the check of unknown keys refer to what is read.
JsonObject JsonObject::object_over(std::string_view key, const Json& base,
                                   std::string_view without) {
  const Json* value = find(key, true, "an object");
  TY_CHECK(value != nullptr && value->is_object(), key);
  Json merged = base;
  merged.merge_patch(*value);
  merged.erase(std::string(without));
  Json& place = state_->document.at(Json::json_pointer(pointer(key)));
  place = std::move(merged);
  return child(place, pointer(key));
}

std::vector<JsonObject> JsonObject::objects(std::string_view key) {
  std::vector<JsonObject> all;
  const Json* value = find(key, false, "");
  if (value == nullptr) return all;
  if (!value->is_array()) {
    report_kind(key, "an array of objects", *value);
    return all;
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::string place = join_pointer(pointer(key), std::to_string(i));
    const Json& element = (*value)[i];
    if (element.is_object()) {
      all.push_back(child(element, place));
    } else {
      state_->problems.push_back(
          {state_->name, place, fmt::format("must be an object, not {}", shown(element)), ""});
    }
  }
  return all;
}

// All readers return the fallback after a problem, so that one pass finds all problems of a file.
std::int64_t JsonObject::integer(std::string_view key, const IntegerRule& rule) {
  const std::int64_t otherwise = rule.fallback.value_or(0);
  const Json* value = find(key, !rule.fallback, "a whole number");
  if (value == nullptr) return otherwise;
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number) {
    report(key, fmt::format("must be a whole number, not {}", shown(*value)),
           value->is_string() ? "write it without quotes" : "");
    return otherwise;
  }
  if (*number >= rule.least && *number <= rule.most) return *number;
  const IntegerRule open;
  const std::string least = rule.least == open.least ? "" : std::to_string(rule.least);
  const std::string most = rule.most == open.most ? "" : std::to_string(rule.most);
  report(key, fmt::format("must be {}, not {}", bounds(least, most), shown(*value)),
         std::string(rule.remedy));
  return otherwise;
}

double JsonObject::number(std::string_view key, const NumberRule& rule) {
  const double otherwise = rule.fallback.value_or(0.0);
  const Json* value = find(key, !rule.fallback, "a number");
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    report_kind(key, "a number", *value);
    return otherwise;
  }
  const auto number = value->get<double>();
  if (number >= rule.least && number <= rule.most) return number;
  const std::string least = std::isinf(rule.least) ? "" : fmt::format("{}", rule.least);
  const std::string most = std::isinf(rule.most) ? "" : fmt::format("{}", rule.most);
  report_kind(key, bounds(least, most), *value);
  return otherwise;
}

bool JsonObject::boolean(std::string_view key, std::optional<bool> fallback) {
  const Json* value = find(key, !fallback, "true or false");
  if (value == nullptr) return fallback.value_or(false);
  if (value->is_boolean()) return value->get<bool>();
  report_kind(key, "true or false", *value);
  return fallback.value_or(false);
}

std::string JsonObject::text(std::string_view key, const std::optional<std::string>& fallback) {
  const Json* value = find(key, !fallback, "text");
  if (value == nullptr) return fallback.value_or("");
  if (value->is_string()) return value->get<std::string>();
  report_kind(key, "text", *value);
  return fallback.value_or("");
}

std::string JsonObject::choice(std::string_view key, const std::vector<std::string>& choices,
                               const std::optional<std::string>& fallback) {
  const std::string what = fmt::format("one of {}", fmt::join(choices, ", "));
  const Json* value = find(key, !fallback, what);
  if (value == nullptr) return fallback.value_or("");
  const std::string word = value->is_string() ? value->get<std::string>() : "";
  if (value->is_string() && std::find(choices.begin(), choices.end(), word) != choices.end()) {
    return word;
  }
  std::string hint;
  if (const auto remedy = state_->word_remedies.find(word); remedy != state_->word_remedies.end()) {
    hint = remedy->second;
  } else if (const std::string near = nearest(word, choices); !near.empty()) {
    hint = fmt::format("did you mean \"{}\"?", near);
  }
  report(key, fmt::format("must be {}, not {}", what, shown(*value)), hint);
  return fallback.value_or("");
}

std::vector<std::string> JsonObject::texts(
    std::string_view key, const std::optional<std::vector<std::string>>& fallback) {
  const Json* value = find(key, !fallback, "an array of texts");
  std::vector<std::string> all;
  if (value == nullptr) return fallback.value_or(all);
  const auto is_text = [](const Json& element) { return element.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
    report_kind(key, "an array of texts", *value);
    return fallback.value_or(all);
  }
  for (const Json& element : *value) all.push_back(element.get<std::string>());
  return all;
}

std::vector<std::string> JsonObject::choices(std::string_view key,
                                             const std::vector<std::string>& known,
                                             std::string_view unknown,
                                             std::vector<std::string> fallback) {
  std::vector<std::string> chosen = texts(key, std::move(fallback));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(known.begin(), known.end(), chosen[i]) != known.end()) continue;
    const auto remedy = state_->word_remedies.find(chosen[i]);
    state_->problems.push_back({state_->name, fmt::format("{}/{}", pointer(key), i),
                                fmt::format(fmt::runtime(unknown), chosen[i]),
                                remedy != state_->word_remedies.end()
                                    ? remedy->second
                                    : fmt::format("choose from {}", fmt::join(known, ", "))});
  }
  return chosen;
}

// Reads a quantity from text with a unit. A number without a unit is reported like any other wrong
// value.
template <class Kind, class Parser>
Kind JsonObject::quantity(std::string_view key, std::optional<Kind> fallback, Parser parser,
                          std::string_view what, std::string_view units) {
  const Json* value = find(key, !fallback, what);
  const Kind otherwise = fallback.value_or(Kind{});
  if (value == nullptr) return otherwise;
  const std::optional<Kind> parsed =
      value->is_string() ? parser(value->get_ref<const std::string&>()) : std::nullopt;
  if (parsed && parsed->value() >= 0.0) return *parsed;
  const std::string hint = parsed ? "it cannot be negative" : fmt::format("units: {}", units);
  report(key, fmt::format("must be {}, not {}", what, shown(*value)), hint);
  return otherwise;
}

Seconds JsonObject::time(std::string_view key, std::optional<Seconds> fallback) {
  return quantity(key, fallback, parse_time, "a time with its unit such as \"2 us\"", time_units());
}
Bytes JsonObject::bytes(std::string_view key, std::optional<Bytes> fallback) {
  return quantity(key, fallback, parse_bytes, "a size with its unit such as \"80 GiB\"",
                  byte_units());
}
BytesPerSecond JsonObject::rate(std::string_view key, std::optional<BytesPerSecond> fallback) {
  return quantity(key, fallback, parse_rate, "a rate with its unit such as \"450 GB/s\"",
                  rate_units());
}
FlopsPerSecond JsonObject::flops_rate(std::string_view key,
                                      std::optional<FlopsPerSecond> fallback) {
  return quantity(key, fallback, parse_flops_rate, "a rate with its unit such as \"312 TFLOP/s\"",
                  flops_rate_units());
}

JsonObject sourced(JsonObject& object, std::string_view key) {
  JsonObject figure = object.object(key);
  if (figure.text("source").empty())
    figure.report("source", "is empty", "name the data sheet, paper or command of the figure");
  return figure;
}

}  // namespace trainyard
