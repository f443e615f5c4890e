#include "sim/base/json_parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDepthMost = 200;

// Follows the parser through the document and finds keys that appear twice in one object: the
// library would silently keep one of the values.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(std::string file) : file_(std::move(file)) {}

  void see(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      open(event == Event::array_start);
    } else if (event == Event::object_end || event == Event::array_end) {
      levels_.pop_back();
      next_element();
    } else if (event == Event::key) {
      key(parsed.get_ref<const std::string&>());
    } else {
      next_element();
    }
  }

  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }

 private:
  struct Level {
    bool array = false;
    std::size_t index = 0;       // of an array: the element being read
    std::string key;             // of an object: the member being read
    std::set<std::string> keys;  // of an object: all members so far
  };

  void open(bool array) {
    if (levels_.size() >= kDepthMost) {
      throw InputError(Problem{file_, "", fmt::format("nested deeper than {} levels", kDepthMost),
                               "flatten it; no file of ours needs more than ten"});
    }
    levels_.push_back({.array = array, .index = 0, .key = {}, .keys = {}});
  }

  void key(const std::string& name) {
    Level& level = levels_.back();
    level.key = name;
    if (level.keys.insert(name).second) return;
    problems_.push_back({file_, pointer(), fmt::format("the key {} appears twice", shown(name)),
                         "keep one of them"});
  }

  void next_element() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
  }

  [[nodiscard]] std::string pointer() const {
    std::string text;
    for (const Level& level : levels_) {
      text = join_pointer(text, level.array ? std::to_string(level.index) : level.key);
    }
    return text;
  }

  std::string file_;
  std::vector<Level> levels_;
  std::vector<Problem> problems_;
};

// "line 3, column 7" of a byte, counted from one as editors do.
std::string place(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto line_begin = before.rfind('\n');
  const std::size_t column =
      line_begin == std::string_view::npos ? before.size() : before.size() - line_begin - 1;
  return fmt::format("line {}, column {}", lines + 1, column + 1);
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax ..." -> "syntax ..."
std::string without_preamble(std::string message) {
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

}  // namespace

Json parse_json(const std::string& name, std::string_view text) {
  DuplicateKeys duplicates(name);
  const auto watch = [&duplicates](int, Json::parse_event_t event, Json& parsed) {
    duplicates.see(event, parsed);
    return true;
  };
  try {
    Json document = Json::parse(text, watch, true, true);
    if (!duplicates.problems().empty()) throw InputError(duplicates.problems());
    return document;
  } catch (const Json::parse_error& error) {
    const std::string what = without_preamble(error.what());
    throw InputError(
        Problem{name, "", fmt::format("{}: {}", place(text, error.byte), what), syntax_hint(what)});
  } catch (const Json::exception& error) {
    // A number that no double holds, such as 1e999.
    throw InputError(Problem{name, "", without_preamble(fmt::format(": {}", error.what())), ""});
  }
}

}  // namespace trainyard
