#include "scenarios/import/launch_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

// Two kinds of text hold arguments. A log of Megatron-LM lists every setting with its value
// (printed_settings). Any other text is read as a script (flags_of): comments and line breaks are
// removed, variables are substituted, and a word that begins with "--" is a flag wherever it
// stands. The grammar of the shell is not needed, because a flag and its value are neighbours in
// commands, arrays and quoted variables alike.
namespace {

using Variables = std::map<std::string, std::string>;

[[noreturn]] void refuse_arguments(const std::string& file, const std::string& problem,
                                   const std::string& hint) {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

std::string underscored(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

bool is_space(char letter) {
  return std::string_view(" \t\r\n\f\v").find(letter) != std::string_view::npos;
}

bool is_in_name(char letter) {  // of a shell variable
  return letter == '_' || is_letter_or_digit(letter);
}

// Returns the shell name at the beginning of the text.
std::string_view name_at(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_in_name(text[length])) ++length;
  return text.substr(0, length);
}

std::string_view without_spaces_before(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

// Returns the position of the quote that closes the one at a position; npos where none does.
std::size_t closing_quote(std::string_view line, std::size_t at) {
  for (std::size_t i = at + 1; i < line.size(); ++i) {
    if (line[at] == '"' && line[i] == '\\')
      ++i;
    else if (line[i] == line[at])
      return i;
  }
  return std::string_view::npos;
}

// Removes comments and joins continued lines.
std::vector<ScriptLine> script_lines(const std::string& text) {
  std::vector<ScriptLine> joined;
  std::istringstream lines(text);
  std::size_t number = 0;
  bool goes_on = false;
  char quote = '\0';
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    std::string_view kept = without_comment(line, quote);
    const bool continued = kept.ends_with('\\');
    if (continued) kept.remove_suffix(1);
    if (!goes_on) joined.push_back({.number = number, .text = {}});
    joined.back().text.append(kept).append(continued ? " " : "");
    goes_on = continued;
  }
  return joined;
}

// A reference to a variable: a name, or a name with a default in braces.
struct Reference {
  std::string_view name;
  std::optional<std::string_view> otherwise = {};
  std::size_t length = 0;  // including the $; 0: not a variable
};

// The position of the brace that closes a reference, of which this text follows the name. The
// default may hold references itself: "${SLURM_NNODES:-${WORLD:-1}}".
std::size_t closing_brace(std::string_view text) {
  int open = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("${")) ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::string_view::npos;
}

// Understands $NAME, ${NAME}, ${NAME:-default} and ${NAME-default}. Other expansions of the shell
// remain as they are.
Reference reference_at(std::string_view text) {
  const bool braces = text.substr(1).starts_with('{');
  const std::size_t begin = braces ? 2 : 1;
  const std::string_view name = name_at(text.substr(begin));
  if (name.empty()) return {};
  if (!braces) return {.name = name, .length = begin + name.size()};
  std::string_view rest = text.substr(begin + name.size());
  const std::size_t end = closing_brace(rest);
  if (end == std::string_view::npos) return {};
  const std::size_t length = begin + name.size() + end + 1;
  rest = rest.substr(0, end);
  if (rest.empty()) return {.name = name, .length = length};
  if (rest.starts_with(':')) rest.remove_prefix(1);
  if (!rest.starts_with('-')) return {};
  return {.name = name, .otherwise = rest.substr(1), .length = length};
}

constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

// Limits the size of one text and of all variables of a script together, because variables that
// refer to each other may grow exponentially.
void check_text_size(std::size_t bytes, const std::string& file) {
  if (bytes <= kMostBytes) return;
  refuse_arguments(file,
                   fmt::format("its variables make more than {} MiB of text", kMostBytes >> 20U),
                   "do variables refer to each other?");
}

// Substitutes variables. Their values may contain variables; each round substitutes one level.
std::string expanded(std::string text, const Variables& variables, const std::string& file) {
  // Ends the rounds where variables refer to each other.
  constexpr int kLevels = 8;
  for (int level = 0; level < kLevels; ++level) {
    std::string result;
    bool changed = false;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t next = std::min(rest.find('$'), rest.size());
      result.append(rest.substr(0, next));
      rest.remove_prefix(next);
      if (rest.empty()) break;
      const Reference reference = reference_at(rest);
      const auto known = variables.find(std::string(reference.name));
      const bool is_known = reference.length > 0 && known != variables.end();
      // An unknown variable without a default stays in the text, so that its use is reported by
      // name.
      if (is_known)
        result += known->second;
      else if (reference.otherwise)
        result += *reference.otherwise;
      else
        result += rest.substr(0, std::max<std::size_t>(reference.length, 1));
      changed = changed || is_known || reference.otherwise;
      rest.remove_prefix(std::max<std::size_t>(reference.length, 1));
      check_text_size(result.size(), file);
    }
    text = std::move(result);
    if (!changed) break;
  }
  return text;
}

// Returns the value at the beginning of the text, in quotes or not; nothing for an array.
std::optional<std::string_view> value_at(std::string_view text) {
  if (text.empty()) return {};
  if (text.front() == '"' || text.front() == '\'') {
    const std::size_t end = text.find(text.front(), 1);
    if (end == std::string_view::npos) return {};
    return text.substr(1, end - 1);
  }
  if (text.front() == '(' || text.front() == ';' || is_space(text.front())) return {};
  std::size_t length = 0;
  int depth = 0;  // of $(...) and $((...)), which may hold blanks
  for (; length < text.size() && text[length] != '\n'; ++length) {
    if (depth == 0 && (text[length] == ';' || is_space(text[length]))) break;
    if (text[length] == '(' && (depth > 0 || (length > 0 && text[length - 1] == '$'))) ++depth;
    if (text[length] == ')' && depth > 0) --depth;
  }
  return text.substr(0, length);
}

// Returns whether a value holds a variable, also in a default.
bool refers_to(std::string_view value, std::string_view name) {
  for (std::size_t at = value.find('$'); at != std::string_view::npos; at = value.find('$', at + 1))
    if (reference_at(value.substr(at)).name == name) return true;
  return false;
}

// Returns how many more conditions the line opens than it closes: 1, 0 or -1.
int conditions_of(std::string_view line) {
  line = without_spaces_before(line);
  const std::string_view first = name_at(line);
  if (first == "fi" || first == "esac") return -1;
  if (first != "if" && first != "case") return 0;
  while (!line.empty() && (line.back() == ';' || is_space(line.back()))) line.remove_suffix(1);
  return line.ends_with(" fi") || line.ends_with(" esac") ? 0 : 1;
}

// Collects the values that a script gives to its variables. An assignment outside of conditions
// replaces those before it.
class BranchReader {
 public:
  void read_line(std::string_view line) { depth_ = std::max(depth_ + conditions_of(line), 0); }

  void assign(const std::string& name, std::size_t line, std::string_view written,
              const std::string& text) {
    constexpr std::size_t kValuesMost = 8;
    if (refers_to(written, name)) own_.insert(name);
    std::vector<BranchVariable::Value>& values = values_[name];
    if (depth_ == 0) values.clear();
    std::erase_if(values, [&](const auto& one) { return one.text == text; });
    if (values.size() == kValuesMost) values.erase(values.begin());
    values.push_back({.line = line, .text = text});
  }

  std::vector<BranchVariable> variables() {
    std::vector<BranchVariable> branches;
    for (auto& [name, values] : values_)
      if (values.size() > 1 && !own_.contains(name))
        branches.push_back({.name = name, .values = std::move(values)});
    return branches;
  }

 private:
  int depth_ = 0;  // of conditions around the line
  std::map<std::string, std::vector<BranchVariable::Value>> values_;
  std::set<std::string> own_;  // names whose value holds themselves
};

// Reads NAME=value at the beginning of lines and substitutes the variables known so far, as the
// shell does, so that X=${X:-8} is 8. Arrays are not variables.
Variables variables_of(const std::vector<ScriptLine>& script, const std::string& file,
                       const Variables& defined, BranchReader* branches = nullptr) {
  Variables variables = defined;
  std::size_t bytes = 0;
  for (const ScriptLine& line : script) {
    if (branches != nullptr) branches->read_line(line.text);
    std::string_view rest = without_spaces_before(line.text);
    if (rest.starts_with("export") && rest.size() > 6 && is_space(rest[6]))
      rest = without_spaces_before(rest.substr(6));
    const std::string name(name_at(rest));
    rest.remove_prefix(name.size());
    if (name.empty() || !rest.starts_with('=') || defined.contains(name)) continue;
    const auto value = value_at(rest.substr(1));
    if (!value) continue;
    std::string text = expanded(std::string(*value), variables, file);
    bytes += text.size();
    check_text_size(bytes, file);
    if (branches != nullptr) branches->assign(name, line.number, *value, text);
    variables[name] = std::move(text);
  }
  return variables;
}

// The flags here that take several words, and the words that they accept (Megatron-LM
// core/transformer/transformer_config.py, allowed_modules and cp_comm_type).
bool belongs_to_list(const std::string& flag, const std::string& word) {
  constexpr auto kModules =
      std::to_array<std::string_view>({"core_attn", "layernorm", "mla_up_proj", "mlp", "mlp_act",
                                       "moe", "moe_act", "pre_mlp", "shared_experts"});
  constexpr auto kExchanges =
      std::to_array<std::string_view>({"a2a", "a2a+p2p", "all_gather", "p2p"});
  const auto has = [&](const auto& words) { return std::ranges::find(words, word) != words.end(); };
  return (flag == "recompute_modules" && has(kModules)) ||
         (flag == "cp_comm_type" && has(kExchanges));
}

// The letters of a pipeline's layout, such as Et|(tt|)*30mL, whose parentheses belong to the value.
constexpr std::string_view kLayoutLetters = "EtmL|()*0123456789,";
// These letters stand for them while other parentheses become spaces.
constexpr char kOpen = '\x01';
constexpr char kClose = '\x02';

// A word is a layout if it has only the letters of one, a layer and the end of a stage among them,
// and as many opening as closing parentheses. Other parentheses are those of arrays.
void keep_parentheses_of_layouts(std::string& text) {
  constexpr std::string_view kBetweenWords = " \t\r\n\"'=";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBetweenWords, at), text.size());
    const auto word = std::span(text).subspan(at, end - at);
    const std::string_view letters(word.data(), word.size());
    at = end + 1;
    if (letters.find('t') == std::string_view::npos) continue;
    if (letters.find('|') == std::string_view::npos) continue;
    if (letters.find_first_not_of(kLayoutLetters) != std::string_view::npos) continue;
    if (std::ranges::count(letters, '(') != std::ranges::count(letters, ')')) continue;
    std::ranges::replace(word, '(', kOpen);
    std::ranges::replace(word, ')', kClose);
  }
}

std::map<std::string, std::string> flags_of(const std::string& text, const std::string& file,
                                            const Variables& defined) {
  // Parentheses and quotes become spaces, so flags in arrays and in quoted variables read like
  // plain flags. A word after a flag is its value; further words belong to flags with lists only.
  const std::vector<ScriptLine> script = script_lines(text);
  std::string plain;
  for (const ScriptLine& line : script) plain.append(line.text).append("\n");
  plain = expanded(std::move(plain), variables_of(script, file, defined), file);
  keep_parentheses_of_layouts(plain);
  for (char& letter : plain)
    if (std::string_view("()\"'").find(letter) != std::string_view::npos && letter != '\n')
      letter = ' ';
  std::istringstream words(plain);
  std::map<std::string, std::string> values;
  // The value that the next word belongs to. Elements of a map do not move, so the pointer stays
  // valid.
  std::string* open = nullptr;
  std::string name;
  for (std::string word; words >> word;) {
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      name = underscored(word.substr(2, equals - 2));
      std::string& value = values[name];
      value = equals == std::string::npos ? "" : word.substr(equals + 1);
      open = equals == std::string::npos ? &value : nullptr;
    } else if (open != nullptr && open->empty()) {
      *open = word;
    } else if (open != nullptr && belongs_to_list(name, word)) {
      *open += " " + word;
    } else {
      open = nullptr;
    }
  }
  for (auto& [flag, value] : values) {
    std::ranges::replace(value, kOpen, '(');
    std::ranges::replace(value, kClose, ')');
  }
  return values;
}

// Finds the variables of branches whose other values would change arguments, by reading the script
// again with each of them.
std::vector<OpenChoice> open_choices(const std::string& text, const std::string& file,
                                     const Variables& defined,
                                     const std::map<std::string, std::string>& values) {
  std::vector<OpenChoice> choices;
  for (const BranchVariable& branch : branch_variables(text, file, defined)) {
    OpenChoice choice{.sentence = branch.sentence(), .arguments = {}};
    for (const BranchVariable::Value& other : branch.values) {
      Variables chosen = defined;
      chosen[branch.name] = other.text;
      for (const auto& [flag, value] : flags_of(text, file, chosen)) {
        const auto now = values.find(flag);
        if (now == values.end() || now->second != value) choice.arguments.insert(flag);
      }
    }
    if (!choice.arguments.empty()) choices.push_back(std::move(choice));
  }
  return choices;
}

// Returns whether the text is the rank that prefixes a line: empty, a number ("3:") or a name
// ("[default0]:"). A word alone is none: "echo starting ..." is a command of a script.
bool is_rank(std::string_view text) {
  if (!text.empty() && text.find_first_of("]:") == std::string_view::npos)
    return without_spaces_before(text).empty();
  if (text.starts_with('[')) text.remove_prefix(1);
  const std::size_t length = std::min(text.find_first_of("] \t"), text.size());
  const auto fits = [](char letter) { return is_in_name(letter) || letter == ':'; };
  if (!std::ranges::all_of(text.substr(0, length), fits)) return false;
  text.remove_prefix(length);
  if (text.starts_with(']')) text.remove_prefix(1);
  if (text.starts_with(':')) text.remove_prefix(1);
  return without_spaces_before(text).empty();
}

// Reads settings as Megatron-LM prints them, with or without a rank's number in front:
//     hidden_size ..................................... 12288
std::map<std::string, std::string> printed_settings(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const std::string_view all = line;
    const std::size_t dots = all.find(" ...");
    if (dots == std::string_view::npos) continue;
    std::size_t begin = dots;
    while (begin > 0 && is_in_name(all[begin - 1])) --begin;
    const std::string_view name = all.substr(begin, dots - begin);
    if (name.empty() || name.front() < 'a' || name.front() > 'z' || !is_rank(all.substr(0, begin)))
      continue;
    const std::size_t end = std::min(all.find_first_not_of('.', dots + 1), all.size());
    if (end < all.size() && all[end] != ' ') continue;
    values[std::string(name)] = without_spaces_before(all.substr(end));
  }
  return values;
}

}  // namespace

std::string as_flag(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

LaunchArguments::LaunchArguments(std::string file, std::map<std::string, std::string> values,
                                 std::map<std::string, std::string> spelling,
                                 std::vector<OpenChoice> choices)
    : file_(std::move(file)),
      values_(std::move(values)),
      spelling_(std::move(spelling)),
      choices_(std::move(choices)) {}

std::string LaunchArguments::spelled(const std::string& name) const {
  const auto found = spelling_.find(name);
  if (found != spelling_.end()) return found->second;
  return spelling_.empty() ? as_flag(name) : name;
}

// Every typed reader uses this function, which records the argument as read (see unread()).
std::optional<std::string> LaunchArguments::text(const std::string& name) {
  read_.insert(name);
  const auto found = values_.find(name);
  if (found == values_.end() || found->second == "None") return {};
  if (found->second.find_first_of("$`") != std::string::npos) {
    refuse_arguments(file_,
                     fmt::format("{} is \"{}\", which only the shell could work out", spelled(name),
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
    refuse_arguments(file_, fmt::format("{} is \"{}\", which is no number", spelled(name), *given),
                     "");
  return value;
}

std::optional<std::int64_t> LaunchArguments::integer(const std::string& name) {
  constexpr double kMost = 1e9;  // products of two are still exact
  const std::optional<double> value = number(name);
  if (!value) return {};
  if (!(std::abs(*value) <= kMost))
    refuse_arguments(file_, fmt::format("{} is {}, more than {}", spelled(name), *value, kMost),
                     "");
  if (*value != std::trunc(*value))
    refuse_arguments(file_,
                     fmt::format("{} is {}, which is no whole number", spelled(name), *value), "");
  return static_cast<std::int64_t>(*value);
}

// The words that HfArgumentParser takes for false, in any case. No other word is refused: in a
// script it may be the next command, or that of a pipe, and no value of the flag.
bool LaunchArguments::flag(const std::string& name) {
  constexpr auto kFalse = std::to_array<std::string_view>({"no", "false", "f", "n", "0"});
  const std::optional<std::string> given = text(name);
  return given && std::ranges::find(kFalse, lower_case(*given)) == kFalse.end();
}

std::int64_t LaunchArguments::need(const std::string& name) {
  const std::optional<std::int64_t> value = integer(name);
  if (!value)
    refuse_arguments(file_, spelled(name) + " is not there", "it is needed to make a scenario");
  return value.value_or(0);
}

std::vector<std::string> LaunchArguments::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_)
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

std::vector<std::string> LaunchArguments::assumed() const {
  std::vector<std::string> sentences;
  for (const OpenChoice& choice : choices_)
    if (std::ranges::any_of(choice.arguments,
                            [&](const std::string& name) { return read_.contains(name); }))
      sentences.push_back(choice.sentence);
  return sentences;
}

std::string BranchVariable::sentence() const {
  constexpr std::size_t kLettersMost = 40;
  std::string all;
  for (const Value& value : values)
    all += fmt::format("{}{}{} in line {}",
                       all.empty()                ? ""
                       : &value == &values.back() ? " and "
                                                  : ", ",
                       value.text.substr(0, kLettersMost),
                       value.text.size() > kLettersMost ? "..." : "", value.line);
  return fmt::format("{} is {}: the last one holds, say which with --define {}=VALUE", name, all,
                     name);
}

std::vector<BranchVariable> branch_variables(const std::string& text, const std::string& file,
                                             const std::map<std::string, std::string>& defined) {
  // Every value is tried, so a text that is no script of a person must not have many.
  constexpr std::size_t kBytesMost = std::size_t{1} << 17U;
  constexpr std::size_t kVariablesMost = 20;
  if (text.size() > kBytesMost) return {};
  BranchReader branches;
  (void)variables_of(script_lines(text), file, defined, &branches);
  std::vector<BranchVariable> found = branches.variables();
  if (found.size() > kVariablesMost) found.resize(kVariablesMost);
  return found;
}

std::string_view without_comment(std::string_view line, char& quote) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\') {
      ++at;
    } else if (line[at] == quote) {
      quote = '\0';
    } else if (line[at] == '"' || line[at] == '\'') {
      const std::size_t end = closing_quote(line, at);
      if (end != std::string_view::npos)
        at = end;
      else if (quote == '\0')
        quote = line[at];
    } else if (line[at] == '#' && (at == 0 || is_space(line[at - 1]))) {
      return line.substr(0, at);
    }
  }
  return line;
}

LaunchArguments read_launch_arguments(const std::string& text, const std::string& file,
                                      const std::map<std::string, std::string>& defined) {
  // A log lists all settings with their defaults, so it has precedence over flags in the same text.
  std::map<std::string, std::string> values = printed_settings(text);
  if (!values.empty()) return {file, std::move(values)};
  values = flags_of(text, file, defined);
  if (values.empty())
    refuse_arguments(
        file, "holds no argument of a launch",
        "give a script that passes --num-layers and the like, or a log that lists the arguments");
  std::vector<OpenChoice> choices = open_choices(text, file, defined, values);
  return {file, std::move(values), {}, std::move(choices)};
}

ScriptText read_script(const std::string& text, const std::string& file,
                       const std::map<std::string, std::string>& defined) {
  ScriptText script{.lines = script_lines(text), .variables = {}};
  script.variables = variables_of(script.lines, file, defined);
  std::size_t bytes = 0;
  for (ScriptLine& line : script.lines) {
    line.text = expanded(std::move(line.text), script.variables, file);
    bytes += line.text.size();
    check_text_size(bytes, file);
  }
  return script;
}

}  // namespace trainyard
