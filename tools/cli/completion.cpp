#include "tools/cli/completion.hpp"

#include <fmt/format.h>

#include <sstream>

namespace trainyard {

// The scripts hold the names of all commands, options and values, so that a shell does not start
// the program at each Tab. Those of bash and zsh find the command typed so far, word by word, and
// offer the values of the option before the cursor, else options after a dash, else commands. fish
// does this itself, from one `complete` line for each name.

namespace {

// The allowed values of an option, from its type such as "{simgrid,ideal}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');)
    // A transformer shows "always->1", and the user types the first part.
    choices.push_back(word.substr(0, word.find("->")));
  return choices;
}

// Commands, options and values as entries of a shell's `case`, by the words typed so far.
struct Entries {
  std::string commands;
  std::string options;
  std::string values;
};

// `entry` writes one entry from its pattern and the words that it offers.
Entries entries_of(
    const CLI::App& app,
    const std::function<std::string(const std::string&, const std::vector<std::string>&)>& entry) {
  Entries entries;
  walk(app, [&](const CLI::App& command, const std::string& words) {
    std::vector<std::string> names;
    for (const CLI::App* below : commands_of(command)) names.push_back(below->get_name());
    std::vector<std::string> longs;
    for (const CLI::Option* option : command.get_options()) {
      const std::vector<std::string> choices = choices_of(*option);
      for (const std::string& name : option->get_lnames()) {
        longs.push_back("--" + name);
        if (!choices.empty()) entries.values += entry(words + " --" + name, choices);
      }
      if (!option->nonpositional()) names.insert(names.end(), choices.begin(), choices.end());
    }
    if (!names.empty()) entries.commands += entry(words, names);
    entries.options += entry(words, longs);
  });
  return entries;
}

// The parts of the bash script around the generated `case` entries. In it, `path` is the command
// typed so far, and `before` is the word before the cursor.
constexpr const char* kCompletionHead =
    R"bash(# bash completion: eval "$(trainyard completion bash)"
_trainyard() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case " $(_trainyard_commands "$path") " in
      *" ${COMP_WORDS[i]} "*) path="${path:+$path }${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path $before" in
)bash";
constexpr const char* kCompletionOptions = R"bash(  esac
  if [[ -z $words && $word == -* ]]; then
    case "$path" in
)bash";
constexpr const char* kCompletionWords = R"bash(    esac
  elif [[ -z $words ]]; then
    words=$(_trainyard_commands "$path")
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
_trainyard_commands() {
  local words=''
  case "$1" in
)bash";
constexpr const char* kCompletionEnd = R"bash(  esac
  echo "$words"
}
complete -o default -F _trainyard trainyard
)bash";

std::string bash_script(const CLI::App& app) {
  const Entries entries =
      entries_of(app, [](const std::string& pattern, const std::vector<std::string>& words) {
        return fmt::format("    '{}') words='{}' ;;\n", pattern, fmt::join(words, " "));
      });
  return kCompletionHead + entries.values + kCompletionOptions + entries.options +
         kCompletionWords + entries.commands + kCompletionEnd;
}

// The parts of the zsh script. `at` is the command typed so far; zsh binds `path` to PATH.
constexpr const char* kZshHead = R"zsh(#compdef trainyard
# zsh completion: trainyard completion zsh > a folder of $fpath/_trainyard
_trainyard() {
  local at='' before=${words[CURRENT-1]} i
  local -a offered known
  for ((i = 2; i < CURRENT; i++)); do
    known=()
    _trainyard_commands "$at"
    if (( ${known[(Ie)${words[i]}]} )); then at="${at:+$at }${words[i]}"; fi
  done
  case "$at $before" in
)zsh";
constexpr const char* kZshOptions = R"zsh(  esac
  if (( ${#offered} == 0 )) && [[ $PREFIX == -* ]]; then
    case "$at" in
)zsh";
constexpr const char* kZshWords = R"zsh(    esac
  elif (( ${#offered} == 0 )); then
    known=()
    _trainyard_commands "$at"
    offered=($known)
    (( ${#offered} )) || _files
  fi
  (( ${#offered} == 0 )) || compadd -a offered
}
_trainyard_commands() {
  case "$1" in
)zsh";
constexpr const char* kZshEnd = R"zsh(  esac
}
if [[ ${funcstack[1]} == _trainyard ]]; then _trainyard "$@"; else compdef _trainyard trainyard; fi
)zsh";

std::string zsh_script(const CLI::App& app) {
  const auto entry = [](const char* array) {
    return [array](const std::string& pattern, const std::vector<std::string>& words) {
      return fmt::format("    '{}') {}=({}) ;;\n", pattern, array, fmt::join(words, " "));
    };
  };
  const Entries offered = entries_of(app, entry("offered"));
  return kZshHead + offered.values + kZshOptions + offered.options + kZshWords +
         entries_of(app, entry("known")).commands + kZshEnd;
}

// In single quotes fish replaces only \\ and \'.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\\' || letter == '\'') quoted += '\\';
    quoted += letter == '\n' ? ' ' : letter;
  }
  return quoted + "'";
}

// In the script, `at` is the command typed so far.
constexpr const char* kFishHead = R"fish(# fish completion: trainyard completion fish | source
function __trainyard_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim -- "$at $word")
        if contains -- $longer $__trainyard_commands
            set at $longer
        end
    end
    test "$at" = "$argv[1]"
end
)fish";

std::string fish_options(const CLI::App& command, const std::string& at) {
  std::string script;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> choices = choices_of(*option);
    const bool takes = option->get_items_expected_max() > 0;
    const std::string values =
        choices.empty() ? (takes ? " -r" : "")
                        : " -x -a " + fish_quoted(fmt::format("{}", fmt::join(choices, " ")));
    for (const std::string& name : option->get_lnames())
      script += fmt::format("{} -l {}{} -d {}\n", at, name, values,
                            fish_quoted(option->get_description()));
    if (!option->nonpositional() && !choices.empty())
      script +=
          fmt::format("{} -f -a {}\n", at, fish_quoted(fmt::format("{}", fmt::join(choices, " "))));
  }
  return script;
}

std::string fish_script(const CLI::App& app) {
  std::string known = "set -g __trainyard_commands";
  std::string script;
  walk(app, [&](const CLI::App& command, const std::string& words) {
    if (!words.empty()) known += " " + fish_quoted(words);
    const std::string at = fmt::format("complete -c trainyard -n {}",
                                       fish_quoted("__trainyard_at " + fish_quoted(words)));
    for (const CLI::App* below : commands_of(command))
      script += fmt::format("{} -f -a {} -d {}\n", at, below->get_name(),
                            fish_quoted(below->get_description()));
    script += fish_options(command, at);
  });
  return kFishHead + known + "\n" + script;
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

namespace {

void walk_below(
    const CLI::App& app, const std::string& words,
    const std::function<void(const CLI::App& command, const std::string& words)>& visit) {
  visit(app, words);
  for (const CLI::App* command : commands_of(app))
    walk_below(*command, words.empty() ? command->get_name() : words + " " + command->get_name(),
               visit);
}

}  // namespace

void walk(const CLI::App& app,
          const std::function<void(const CLI::App& command, const std::string& words)>& visit) {
  walk_below(app, "", visit);
}

std::string completion(const CLI::App& app, const std::string& shell) {
  if (shell == "zsh") return zsh_script(app);
  return shell == "fish" ? fish_script(app) : bash_script(app);
}

}  // namespace trainyard
