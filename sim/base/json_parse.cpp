#include "sim/base/json_parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDepthMost = 200;
constexpr std::size_t kFewKeys = 16;  // up to here linear search is faster than hashing

// Returns "line 3, column 7" for a byte, both counted from one as in editors.
std::string place(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto line_begin = before.rfind('\n');
  const std::size_t column =
      line_begin == std::string_view::npos ? before.size() : before.size() - line_begin - 1;
  return fmt::format("line {}, column {}", lines + 1, column + 1);
}

// Turns "[json.exception.parse_error.101] parse error at line 1, column 2: syntax ..." into "syntax
// ...".
std::string without_preamble(const std::string& message) {
  const auto end = message.find(": ");
  return end == std::string::npos ? message : message.substr(end + 2);
}

std::string syntax_hint(const std::string& message) {
  const bool closing = message.find("unexpected '}'") != std::string::npos ||
                       message.find("unexpected ']'") != std::string::npos;
  if (closing && message.find("expected end of input") == std::string::npos) {
    return "JSON has no comma after the last element";
  }
  if (message.find("unexpected end of input") != std::string::npos)
    return "a bracket is not closed";
  return "";
}

// An index of the keys of one object while it is parsed.
class Keys {
 public:
  // Returns the index of a key among the members. Members may have been appended since the last
  // call.
  std::optional<std::size_t> find(const Json::object_t::Container& members,
                                  const std::string& key) {
    if (members.size() < kFewKeys) {
      const auto found = std::ranges::find(members, key, &Json::object_t::value_type::first);
      if (found == members.end()) return {};
      return static_cast<std::size_t>(found - members.begin());
    }
    for (; next_ < members.size(); ++next_) places_.emplace(members[next_].first, next_);
    const auto found = places_.find(key);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  std::size_t next_ = 0;
};

// Builds the document during parsing, and detects duplicate keys in an object: the library would
// silently use one of the values. (A parser callback of the library could detect them too, but the
// library then visits all siblings at every closing bracket.)
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override;

  // REQUIRES: parsing has ended.
  [[nodiscard]] Json take() {
    if (!problems_.empty()) throw InputError(problems_);
    return std::move(document_);
  }

 private:
  struct Level {
    Json* value = nullptr;  // an open array or object
    std::string key = {};   // for an object: the current key
    Json* member = nullptr;
    Keys keys = {};  // for an object
  };

  template <class Value>
  bool put(Value&& value) {
    next() = std::forward<Value>(value);
    return true;
  }
  Json& next();
  bool open(Json empty);
  bool close() {
    levels_.pop_back();
    return true;
  }
  [[nodiscard]] std::string pointer() const;

  std::string file_;
  std::string_view text_;
  Json document_;
  std::vector<Level> levels_;
  std::vector<Problem> problems_;
};

// Returns the element of the document that takes the next value.
Json& DocumentBuilder::next() {
  if (levels_.empty()) return document_;
  Level& level = levels_.back();
  return level.value->is_array() ? level.value->emplace_back() : *level.member;
}

bool DocumentBuilder::open(Json empty) {
  if (levels_.size() >= kDepthMost) {
    throw InputError(Problem{file_, "", fmt::format("nested deeper than {} levels", kDepthMost),
                             "flatten it; no file of ours needs more than ten"});
  }
  Json& value = next();
  value = std::move(empty);
  levels_.push_back({.value = &value});
  return true;
}

bool DocumentBuilder::key(string_t& name) {
  Level& level = levels_.back();
  level.key = name;
  // The library's own insertion would compare the key with all earlier keys.
  Json::object_t::Container& members = level.value->get_ref<Json::object_t&>();
  if (const auto twice = level.keys.find(members, level.key)) {
    // The later value takes the place of the earlier one, and take() throws in the end.
    level.member = &members[*twice].second;
    problems_.push_back({file_, pointer(),
                         fmt::format("the key {} appears twice", shown(level.key)),
                         "keep one of them"});
  } else {
    level.member = &members.emplace_back(std::move(name), nullptr).second;
  }
  return true;
}

std::string DocumentBuilder::pointer() const {
  std::string text;
  for (const Level& level : levels_) {
    const bool array = level.value->is_array();
    text = join_pointer(text, array ? std::to_string(level.value->size() - 1) : level.key);
  }
  return text;
}

bool DocumentBuilder::parse_error(std::size_t byte, const std::string&,
                                  const nlohmann::detail::exception& error) {
  const std::string what = without_preamble(error.what());
  const bool syntax = dynamic_cast<const Json::parse_error*>(&error) != nullptr;
  // Otherwise the error is a number out of the range of a double, such as 1e999.
  const std::string told = syntax ? fmt::format("{}: {}", place(text_, byte), what) : what;
  throw InputError(Problem{file_, "", told, syntax ? syntax_hint(what) : ""});
}

}  // namespace

Json parse_json(const std::string& name, std::string_view text) {
  DocumentBuilder builder(name, text);
  Json::sax_parse(text, &builder, Json::input_format_t::json, true, true);
  return builder.take();
}

std::optional<Json> try_parse_json(std::string_view text) {
  try {
    return parse_json("", text);
  } catch (const InputError&) {
    return {};
  }
}

nlohmann::ordered_json parse_unchecked_json(const std::string& text) { return Json::parse(text); }

}  // namespace trainyard
