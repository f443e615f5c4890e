#include "scenarios/import/launch_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>
#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Variables = std::map<std::string, std::string>;

[[noreturn]] void refuse(const std::string& file, const std::string& problem,
                         const std::string& hint) {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

std::string underscored(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// Without comments, with continued lines joined. A # in a word is no comment.
std::string joined_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string joined;
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, std::regex(R"((^|\s)#.*$)"), "");
    const bool continued = !line.empty() && line.back() == '\\';
    if (continued) line.pop_back();
    joined += line + (continued ? " " : "\n");
  }
  return joined;
}

std::string expanded(std::string text, const Variables& variables) {
  static const std::regex kVariable(R"(\$\{(\w+)(:?-([^}]*))?\}|\$(\w+))");
  for (int depth = 0; depth < 8; ++depth) {
    std::string result;
    bool changed = false;
    auto from = text.cbegin();
    for (std::sregex_iterator found(text.cbegin(), text.cend(), kVariable), end; found != end;
         ++found) {
      result.append(from, (*found)[0].first);
      from = (*found)[0].second;
      const std::string name = (*found)[1].matched ? (*found)[1].str() : (*found)[4].str();
      const auto known = variables.find(name);
      if (known != variables.end()) {
        result += known->second;
        changed = true;
      } else if ((*found)[3].matched) {
        result += (*found)[3].str();
        changed = true;
      } else {
        result += (*found)[0].str();
      }
    }
    result.append(from, text.cend());
    text = std::move(result);
    if (!changed) break;
  }
  return text;
}

// NAME=value at the beginning of a line; arrays are no variables.
Variables variables_of(const std::string& script, const Variables& defined) {
  static const std::regex kAssignment(
      R"re((?:^|\n)\s*(?:export\s+)?(\w+)=("([^"\n]*)"|'([^'\n]*)'|([^\s("'][^\s;]*))?)re");
  Variables variables;
  for (std::sregex_iterator found(script.begin(), script.end(), kAssignment), end; found != end;
       ++found) {
    for (const std::size_t group : {3U, 4U, 5U})
      if ((*found)[group].matched) variables[(*found)[1].str()] = (*found)[group].str();
  }
  for (const auto& [name, value] : defined) variables[name] = value;
  return variables;
}

std::map<std::string, std::string> flags_of(const std::string& text, const Variables& defined) {
  const std::string script = joined_lines(text);
  std::string plain = expanded(script, variables_of(script, defined));
  for (char& letter : plain)
    if (std::string_view("()\"'").find(letter) != std::string_view::npos && letter != '\n')
      letter = ' ';
  std::istringstream words(plain);
  std::map<std::string, std::string> values;
  std::string* open = nullptr;
  for (std::string word; words >> word;) {
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      std::string& value = values[underscored(word.substr(2, equals - 2))];
      value = equals == std::string::npos ? "" : word.substr(equals + 1);
      open = equals == std::string::npos ? &value : nullptr;
    } else if (open != nullptr) {
      *open = word;
      open = nullptr;
    }
  }
  return values;
}

// "  hidden_size ..................................... 12288" as Megatron-LM prints them, alike
// with a rank's number before it.
std::map<std::string, std::string> printed_settings(const std::string& text) {
  static const std::regex kSetting(R"((?:^|\n)(?:\[?[\w:]*\]?:?)?\s*([a-z]\w*) \.{3,} ?([^\n]*))");
  std::map<std::string, std::string> values;
  for (std::sregex_iterator found(text.begin(), text.end(), kSetting), end; found != end; ++found)
    values[(*found)[1].str()] = (*found)[2].str();
  return values;
}

}  // namespace

std::string as_flag(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

LaunchArguments::LaunchArguments(std::string file, std::map<std::string, std::string> values)
    : file_(std::move(file)), values_(std::move(values)) {}

std::optional<std::string> LaunchArguments::text(const std::string& name) {
  read_.insert(name);
  const auto found = values_.find(name);
  if (found == values_.end() || found->second == "None") return {};
  if (found->second.find_first_of("$`") != std::string::npos) {
    refuse(file_,
           fmt::format("{} is \"{}\", which only the shell could work out", as_flag(name),
                       found->second),
           "say what a variable is with --define NAME=VALUE");
  }
  return found->second;
}

std::optional<double> LaunchArguments::number(const std::string& name) {
  const std::optional<std::string> given = text(name);
  if (!given) return {};
  double value = 0.0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc() || end != given->data() + given->size())
    refuse(file_, fmt::format("{} is \"{}\", which is no number", as_flag(name), *given), "");
  return value;
}

std::optional<std::int64_t> LaunchArguments::integer(const std::string& name) {
  const std::optional<double> value = number(name);
  if (!value) return {};
  if (*value != static_cast<double>(static_cast<std::int64_t>(*value)))
    refuse(file_, fmt::format("{} is {}, which is no whole number", as_flag(name), *value), "");
  return static_cast<std::int64_t>(*value);
}

bool LaunchArguments::flag(const std::string& name) {
  const std::optional<std::string> given = text(name);
  return given && *given != "False" && *given != "false" && *given != "0";
}

std::int64_t LaunchArguments::need(const std::string& name) {
  const std::optional<std::int64_t> value = integer(name);
  if (!value) refuse(file_, as_flag(name) + " is not there", "it is needed to make a scenario");
  return value.value_or(0);
}

std::vector<std::string> LaunchArguments::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_)
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

LaunchArguments read_launch_arguments(const std::string& text, const std::string& file,
                                      const std::map<std::string, std::string>& defined) {
  std::map<std::string, std::string> values = printed_settings(text);
  if (values.empty()) values = flags_of(text, defined);
  if (values.empty())
    refuse(
        file, "holds no argument of a launch",
        "give a script that passes --num-layers and the like, or a log that lists the arguments");
  return {file, std::move(values)};
}

}  // namespace trainyard
