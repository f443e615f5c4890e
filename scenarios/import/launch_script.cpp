#include "scenarios/import/launch_script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "scenarios/import/launch_arguments.hpp"

namespace trainyard {

// launch_calls() reads a script as a shell would, without executing it: read_script() substitutes
// variables and joins continued lines, arrays_of() collects arrays, with_arrays() and with_values()
// substitute arrays and $((...)), Splitter makes words of a line, and CallReader finds the
// launchers among the words. Every stage limits its own work, because variables and arrays may
// refer to each other.
namespace {

using Variables = std::map<std::string, std::string>;
using ShellWords = std::vector<std::string>;

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

bool is_name_letter(char letter) {
  return letter == '_' || letter == '.' || (letter >= '0' && letter <= '9') ||
         (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// Computes sums and products of whole numbers by recursive descent:
//    sum     = product { ("+" | "-") product }
//    product = term { ("*" | "/" | "//" | "%") term }
//    term    = "(" sum ")" | ["$"] (number | name)
// A name stands for the expression that is its value. Each function returns nothing where the text
// is something else.
class Expression {
 public:
  Expression(std::string_view text, const Variables& names) : rest_(text), names_(names) {}

  std::optional<std::int64_t> value() {
    const std::optional<std::int64_t> all = sum();
    skip();
    return rest_.empty() ? all : std::nullopt;
  }

 private:
  // The limits end the evaluation of names that refer to each other, and keep a sum of two values
  // within 64 bits.
  static constexpr int kDepthMost = 32;
  static constexpr int kLookupsMost = 100;
  static constexpr std::int64_t kMost = 1'000'000'000'000;

  void skip() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char letter) {
    skip();
    if (rest_.empty() || rest_.front() != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> sum() {
    std::optional<std::int64_t> left = product();
    while (left) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const std::optional<std::int64_t> right = product();
      if (!right) return {};
      const std::int64_t a = left.value_or(0);
      left = limited(plus ? a + *right : a - *right);
    }
    return left;
  }

  std::optional<std::int64_t> product() {
    std::optional<std::int64_t> left = term();
    while (left) {
      const char sign = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') break;
      take('/');  // Python's //
      const std::optional<std::int64_t> right = term();
      if (!right || (sign != '*' && *right == 0)) return {};
      const std::int64_t a = left.value_or(0);
      left = sign == '*'   ? limited_product(a, *right)
             : sign == '/' ? std::optional(a / *right)
                           : std::optional(a % *right);
    }
    return left;
  }

  std::optional<std::int64_t> term() {
    if (++depth_ > kDepthMost) return {};
    std::optional<std::int64_t> value;
    if (take('(')) {
      value = sum();
      if (!take(')')) value.reset();
    } else {
      take('$');
      value = number_or_name();
    }
    --depth_;
    return value;
  }

  std::optional<std::int64_t> number_or_name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_name_letter(rest_[length])) ++length;
    const std::string word(rest_.substr(0, length));
    rest_.remove_prefix(length);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc() && end == word.data() + word.size()) return limited(value);
    const auto known = names_.find(word);
    if (known == names_.end() || ++*lookups_ > kLookupsMost) return {};
    Expression inner(known->second, names_);
    inner.lookups_ = lookups_;
    return inner.value();
  }

  static std::optional<std::int64_t> limited(std::int64_t value) {
    return std::abs(value) <= kMost ? std::optional(value) : std::nullopt;
  }
  static std::optional<std::int64_t> limited_product(std::int64_t a, std::int64_t b) {
    std::int64_t value = 0;
    return __builtin_mul_overflow(a, b, &value) ? std::nullopt : limited(value);
  }

  std::string_view rest_;
  const Variables& names_;
  int depth_ = 0;
  int own_lookups_ = 0;
  int* lookups_ = &own_lookups_;  // of names, in all nested expressions together
};

// Returns the position after the closing parenthesis of "$(" or "(" at `at`; the end of the text
// where none is among the next `most` letters.
std::size_t after_parentheses(std::string_view text, std::size_t at,
                              std::size_t most = std::string_view::npos / 2) {
  int depth = 0;
  for (std::size_t i = text.find('(', at); i < std::min(text.size(), at + most); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i + 1;
  }
  return text.size();
}

// Replaces $((...)) by its value where it is known.
std::string with_values(const std::string& text, const Variables& names) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 3, "$((") == 0) {
      // Without a limit, each "$((" that does not end would be searched to the end of the text.
      constexpr std::size_t kLettersMost = 256;
      const std::size_t end = after_parentheses(text, at, kLettersMost);
      if (end >= at + 5 && text.compare(end - 2, 2, "))") == 0) {
        const std::string_view inner = std::string_view(text).substr(at + 3, end - at - 5);
        if (const auto value = whole_value(inner, names)) {
          result += std::to_string(*value);
          at = end;
          continue;
        }
      }
    }
    result += text[at++];
  }
  return result;
}

// Splits a line into commands, and each command into words. Quotes keep words together; $(...) and
// backticks are parts of words.
class Splitter {
 public:
  std::vector<ShellWords> split(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); at = step(text, at)) {
    }
    end_command();
    return std::move(commands_);
  }

 private:
  // Consumes the letter at a position, or a whole substitution or escape, and returns the position
  // after it. Nothing is special within single quotes.
  std::size_t step(std::string_view text, std::size_t at) {
    const char letter = text[at];
    if (quote_ != '\0') {
      if (letter == quote_) {
        quote_ = '\0';
        return at + 1;
      }
    } else if (letter == '"' || letter == '\'') {
      quote_ = letter;
      in_word_ = true;
      return at + 1;
    } else if (is_blank(letter)) {
      end_word();
      return at + 1;
    } else if (letter == ';' || letter == '|' || letter == '&' || letter == '(' || letter == ')') {
      end_command();
      return at + 1;
    }
    in_word_ = true;
    std::size_t end = at + 1;
    if (quote_ != '\'') {
      if (letter == '$' && text.substr(at).starts_with("$(")) end = after_parentheses(text, at);
      if (letter == '`') end = std::min(text.find('`', at + 1), text.size() - 1) + 1;
      if (letter == '\\') end = std::min(at + 2, text.size());
    }
    // Outside quotes the backslash itself is dropped; within double quotes it stays.
    const bool escaped = letter == '\\' && quote_ == '\0' && end == at + 2;
    word_ += text.substr(escaped ? at + 1 : at, end - (escaped ? at + 1 : at));
    return end;
  }

  void end_word() {
    // An empty pair of quotes is an empty word, so the text alone does not show whether there is
    // one.
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }
  void end_command() {
    end_word();
    if (!words_.empty()) commands_.push_back(std::move(words_));
    words_.clear();
  }

  char quote_ = '\0';
  bool in_word_ = false;
  std::string word_;
  ShellWords words_;
  std::vector<ShellWords> commands_;
};

// NAME=( words ... ) and NAME+=( words ... ), over several lines. Both append: of an option that is
// there twice, LaunchCall::last() takes the later one. `taken` are the lines of arrays.
struct Arrays {
  Variables texts = {};
  std::vector<bool> taken = {};
};

Arrays arrays_of(const std::vector<ScriptLine>& lines) {
  Arrays arrays;
  arrays.taken.assign(lines.size(), false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& text = lines[i].text;
    const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    std::size_t end = begin;
    while (end < text.size() && is_name_letter(text[end])) ++end;
    const std::string name = text.substr(begin, end - begin);
    if (end < text.size() && text[end] == '+') ++end;
    if (name.empty() || text.compare(end, 2, "=(") != 0) continue;
    std::string words = text.substr(end + 2);
    std::size_t last = i;
    constexpr std::size_t kLinesMost = 1000;
    while (words.find(')') == std::string::npos && last + 1 < lines.size() && last - i < kLinesMost)
      words += " " + lines[++last].text;
    std::fill(arrays.taken.begin() + static_cast<std::ptrdiff_t>(i),
              arrays.taken.begin() + static_cast<std::ptrdiff_t>(last) + 1, true);
    i = last;
    if (words.find("$(") != std::string::npos) continue;  // a list that only the shell knows
    arrays.texts[name] += " " + words.substr(0, words.rfind(')'));
  }
  return arrays;
}

constexpr std::size_t kBytesMost = std::size_t{1} << 20U;  // of a line with its arrays

// Returns the array that ${NAME[@]} or ${NAME[*]} at a position refers to; nullptr elsewhere.
// `close` becomes the position of the brace.
const std::string* array_at(const std::string& text, std::size_t at, const Arrays& arrays,
                            std::size_t& close) {
  if (text.compare(at, 2, "${") != 0) return nullptr;
  close = text.find('}', at);
  if (close == std::string::npos) return nullptr;
  const std::string inner = text.substr(at + 2, close - at - 2);
  if (!inner.ends_with("[@]") && !inner.ends_with("[*]")) return nullptr;
  const auto known = arrays.texts.find(inner.substr(0, inner.find('[')));
  return known == arrays.texts.end() ? nullptr : &known->second;
}

// Substitutes one level of arrays. Returns whether there were any.
bool substitute_arrays(std::string& text, const Arrays& arrays) {
  std::string result;
  bool changed = false;
  for (std::size_t at = 0; at < text.size() && result.size() < kBytesMost;) {
    std::size_t close = 0;
    const std::string* words = array_at(text, at, arrays, close);
    if (words == nullptr) {
      result += text[at++];
      continue;
    }
    // Quotes around the reference, "${NAME[@]}", keep the words apart.
    const bool quoted = at > 0 && text[at - 1] == '"' && text.compare(close + 1, 1, "\"") == 0;
    if (quoted) result.pop_back();
    result += *words;
    at = close + (quoted ? 2 : 1);
    changed = true;
  }
  text = std::move(result);
  return changed;
}

// Substitutes arrays, also where they name arrays.
std::string with_arrays(std::string text, const Arrays& arrays) {
  constexpr int kLevels = 4;
  for (int level = 0; level < kLevels && text.size() < kBytesMost; ++level)
    if (!substitute_arrays(text, arrays)) break;
  return text;
}

// A launcher, and what its options look like. Options that are not listed take one value.
struct Launcher {
  std::string_view name;
  std::string_view flags;  // options without a value, between blanks
  std::string_view pairs;  // options with two values
};
constexpr std::array kLaunchers{
    Launcher{"srun",
             " l label u unbuffered K kill-on-bad-exit v verbose Q quiet exclusive E overlap pty O "
             "overcommit s oversubscribe container-writable no-container-mount-home "
             "container-mount-home no-container-entrypoint exact mpi-combine ",
             " "},
    Launcher{"torchrun", " standalone no-python use-env m module run-path ", " "},
    Launcher{"mpirun",
             " allow-run-as-root tag-output oversubscribe nooversubscribe v verbose q quiet "
             "display-map display-allocation report-bindings bycore bynode byslot l prepend-rank "
             "nolocal bind-to-core bind-to-none ",
             " mca gmca genv env "},
    Launcher{"horovodrun", " verbose gloo mpi disable-cache ", " "},
    Launcher{"deepspeed",
             " no-local-rank no-python module force-multi save-pid no-ssh no-ssh-check "
             "bind-cores-to-rank elastic-training ",
             " "},
    Launcher{"accelerate",
             " multi-gpu use-fsdp use-deepspeed use-megatron-lm tpu cpu same-network quiet q m "
             "module no-python debug use-xpu ",
             " "},
    Launcher{"ray", " no-wait verbose v ", " "}};

const Launcher* launcher_named(std::string_view name) {
  const auto found = std::ranges::find(kLaunchers, name, &Launcher::name);
  return found == kLaunchers.end() ? nullptr : &*found;
}

bool lists(std::string_view list, const std::string& name) {
  return list.find(" " + name + " ") != std::string_view::npos;
}

std::string_view program_name(std::string_view word) {
  const std::size_t slash = word.rfind('/');
  return slash == std::string_view::npos ? word : word.substr(slash + 1);
}

bool is_interpreter(std::string_view word) {
  const std::string_view name = program_name(word);
  return name.starts_with("python") || name == "bash" || name == "sh" || name == "$PYTHON";
}

// The launcher that begins at a word, and how many words name it: "-m torch.distributed.run" of
// python is torchrun with two. Programs that launch nothing (`accelerate config`, `ray start`) give
// no launcher.
struct Found {
  const Launcher* launcher = nullptr;
  std::size_t words = 0;
};

Found launcher_at(const ShellWords& words, std::size_t at) {
  const auto word = [&](std::size_t i) {
    return at + i < words.size() ? program_name(words[at + i]) : std::string_view();
  };
  const std::string_view name = word(0);
  if (name == "-m" && (word(1) == "torch.distributed.run" || word(1) == "torch.distributed.launch"))
    return {launcher_named("torchrun"), 2};
  if (name == "-m" && word(1) == "accelerate.commands.launch")
    return {launcher_named("accelerate"), 2};
  if (name == "-m" && word(1) == "deepspeed.launcher.runner")
    return {launcher_named("deepspeed"), 2};
  if (name == "accelerate") return {word(1) == "launch" ? launcher_named(name) : nullptr, 2};
  if (name == "accelerate-launch") return {launcher_named("accelerate"), 1};
  if (name == "ray")
    return {word(1) == "job" && word(2) == "submit" ? launcher_named(name) : nullptr, 3};
  if (name == "mpiexec" || name == "mpiexec.hydra" || name == "mpirun.openmpi" || name == "orterun")
    return {launcher_named("mpirun"), 1};
  return {launcher_named(name), 1};
}

LaunchOption option_of(const std::string& word) {
  LaunchOption option;
  const std::size_t equals = word.find('=');
  option.given = word.substr(0, equals);
  option.name = option.given.substr(std::min(word.find_first_not_of('-'), option.given.size()));
  std::ranges::replace(option.name, '_', '-');
  if (equals != std::string::npos) option.value = word.substr(equals + 1);
  return option;
}

// Separates "-N4" of Slurm's and MPI's short options.
void split_glued(LaunchOption& option) {
  if (option.given.size() < 3 || option.given[1] == '-' || !option.value.empty()) return;
  const char next = option.given[2];
  if (next < '0' || next > '9') return;
  option.value = option.given.substr(2);
  option.given.resize(2);
  option.name = option.given.substr(1);
}

// NAME=VALUE calls nothing; variables are substituted where they are used.
bool is_assignment(const std::string& word) {
  std::size_t end = 0;
  while (end < word.size() && is_name_letter(word[end])) ++end;
  return end > 0 && end < word.size() && word[end] == '=';
}

// Commands that name a launcher without calling it.
bool only_names(const std::string& command) {
  constexpr std::array<std::string_view, 18> kCommands = {
      "echo", "printf", "which", "pip",  "pip3",  "conda", "module", "apt", "apt-get",
      "cat",  "grep",   "man",   "type", "alias", "unset", "ls",     "ml",  "pkill"};
  return std::ranges::find(kCommands, program_name(command)) != kCommands.end();
}

class CallReader {
 public:
  void read_line(const std::string& text, std::size_t line, int depth = 0,
                 std::optional<std::size_t> outer = {}) {
    for (const ShellWords& words : Splitter().split(text)) read_command(words, line, depth, outer);
  }
  std::vector<LaunchCall> calls() { return std::move(calls_); }

 private:
  // Looks for a launcher at every word, because others may stand before it: env, numactl, a
  // container. A launcher after another one in the same command runs within that one.
  void read_command(const ShellWords& words, std::size_t line, int depth,
                    std::optional<std::size_t> outer) {
    if (only_names(words.front())) return;
    for (std::size_t at = 0; at < words.size();) {
      if (const Found found = launcher_at(words, at); found.launcher != nullptr) {
        calls_.push_back({.launcher = std::string(found.launcher->name),
                          .line = line,
                          .options = {},
                          .program = {},
                          .outer = outer});
        outer = calls_.size() - 1;
        at = read_options(words, at + found.words, *found.launcher);
        continue;
      }
      // The words after a Python script are its arguments, such as --output_dir /data/deepspeed.
      if (words[at].ends_with(".py") && !words[at].starts_with('-')) return;
      // A command in quotes: bash -c "torchrun ...".
      constexpr int kDepthMost = 3;
      if (depth < kDepthMost && words[at].find_first_of(" \t") != std::string::npos &&
          !words[at].starts_with('-') && !is_assignment(words[at]))
        read_line(words[at], line, depth + 1, outer);
      ++at;
    }
  }

  // Reads the options of the newest call and returns the position of its program.
  std::size_t read_options(const ShellWords& words, std::size_t at, const Launcher& launcher) {
    LaunchCall& call = calls_.back();
    for (; at < words.size() && words[at].starts_with('-'); ++at) {
      if (words[at] == "--" || launcher_at(words, at).launcher != nullptr) break;
      LaunchOption option = option_of(words[at]);
      if (launcher.name == "srun" || launcher.name == "mpirun") split_glued(option);
      const bool has_value = words[at].find('=') != std::string::npos || !option.value.empty();
      // An option that is not listed takes the next word as its value, unless that word is an
      // option, an interpreter or a launcher: a flag that is not known here must not take the
      // program.
      if (lists(launcher.pairs, option.name)) {
        at = std::min(at + 2, words.size() - 1);
      } else if (!has_value && !lists(launcher.flags, option.name) && at + 1 < words.size() &&
                 !words[at + 1].starts_with('-') && !is_interpreter(words[at + 1]) &&
                 launcher_at(words, at + 1).launcher == nullptr) {
        option.value = words[++at];
      }
      call.options.push_back(std::move(option));
    }
    if (at < words.size() && words[at] == "--") ++at;
    if (at < words.size()) call.program = words[at];
    return at;
  }

  std::vector<LaunchCall> calls_;
};

}  // namespace

const LaunchOption* LaunchCall::last(std::initializer_list<std::string_view> names) const {
  const LaunchOption* found = nullptr;
  for (const LaunchOption& option : options)
    if (std::ranges::find(names, option.name) != names.end()) found = &option;
  return found;
}

std::optional<std::int64_t> whole_value(std::string_view expression, const Variables& names) {
  return Expression(expression, names).value();
}

std::vector<LaunchCall> launch_calls(const std::string& text, const std::string& file,
                                     const Variables& defined) {
  const ScriptText script = read_script(text, file, defined);
  const Arrays arrays = arrays_of(script.lines);
  CallReader reader;
  for (std::size_t i = 0; i < script.lines.size(); ++i)
    if (!arrays.taken[i])
      reader.read_line(with_values(with_arrays(script.lines[i].text, arrays), script.variables),
                       script.lines[i].number);
  return reader.calls();
}

std::vector<BatchOption> batch_options(const std::string& text) {
  std::vector<BatchOption> options;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line[begin] != '#') break;  // the first command
    constexpr std::string_view kMark = "#SBATCH";
    if (!line.starts_with(kMark)) continue;
    std::string rest = line.substr(kMark.size());
    char quote = '\0';
    rest.resize(without_comment(rest, quote).size());
    for (const ShellWords& words : Splitter().split(rest)) {
      for (std::size_t at = 0; at < words.size(); ++at) {
        if (!words[at].starts_with('-')) continue;
        LaunchOption option = option_of(words[at]);
        split_glued(option);
        if (option.value.empty() && at + 1 < words.size() && !words[at + 1].starts_with('-'))
          option.value = words[++at];
        options.push_back({.option = std::move(option), .line = number});
      }
    }
  }
  return options;
}

}  // namespace trainyard
