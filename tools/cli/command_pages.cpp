// `trainyard man`, `completion` and `schema`: the manual page, the completion script of bash, and
// the JSON Schema of a scenario for editors. The first two are generated from the options that the
// program parses, so they are never out of date.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/version.hpp"

namespace trainyard {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Visits every command with its words, such as "run" or "show topology". The program itself comes
// first, with empty words.
void walk(const CLI::App& app, const std::string& words,
          const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, words);
  for (const CLI::App* command : commands_of(app))
    walk(*command, words.empty() ? command->get_name() : words + " " + command->get_name(), visit);
}

// Escapes text for roff, where a backslash, a hyphen, and a dot or quote at the start of a line
// have a special meaning.
std::string roff(const std::string& text) {
  std::string escaped;
  bool begins = true;
  for (const char letter : text) {
    if (begins && (letter == '.' || letter == '\'')) escaped += "\\&";
    begins = letter == '\n';
    if (letter == '\\')
      escaped += "\\e";
    else if (letter == '-')
      escaped += "\\-";
    else
      escaped += letter;
  }
  return escaped;
}

std::string joined_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "--" : ", --") + name;
  return names.empty() ? option.get_name(true) : names;
}

// The placeholder of the option's value. A flag takes no value and has none.
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  return type.empty() ? "VALUE" : type;
}

std::string option_entry(const CLI::Option& option) {
  const std::string value = option.nonpositional() ? value_of(option) : "";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(joined_names(option)),
                     value.empty() ? "" : " \\fI" + roff(value) + "\\fR",
                     roff(option.get_description()));
}

// The lines of a footer: indented lines are commands and are set verbatim, the others are prose.
std::string footer_text(const std::string& footer) {
  std::string text;
  bool verbatim = false;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const bool command = line.starts_with("  ");
    if (command != verbatim) text += command ? ".EX\n" : ".EE\n";
    verbatim = command;
    text += roff(line) + "\n";
  }
  return text + (verbatim ? ".EE\n" : "");
}

std::string command_section(const CLI::App& command, const std::string& words) {
  const std::string what = command.get_description();
  const char* stop = what.ends_with('?') || what.ends_with('.') ? "" : ".";
  std::string text = fmt::format(".SS trainyard {}\n{}{}\n", roff(words), roff(what), stop);
  for (const CLI::Option* option : command.get_options())
    if (joined_names(*option) != "-h, --help") text += option_entry(*option);
  return text + ".PP\n" + footer_text(command.get_footer());
}

std::string manual(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH TRAINYARD 1 \"\" \"Trainyard {}\" \"User Commands\"\n.SH NAME\ntrainyard \\- simulate "
      "training steps of large models on GPU clusters\n.SH SYNOPSIS\n.B trainyard\n.I "
      "COMMAND\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n{}\n.PP\n{}.SH COMMANDS\n",
      roff(version_number()), roff(app.get_description()), footer_text(app.get_footer()));
  walk(app, "", [&text](const CLI::App& command, const std::string& words) {
    if (!words.empty()) text += command_section(command, words);
  });
  return text +
         ".SH EXIT STATUS\n.TP\n0\nfine\n.TP\n1\nthe run says no: it does not fit, or "
         "deadlocks\n.TP\n2\nbad input or usage\n.TP\n70\na fault of trainyard\n"
         ".SH ENVIRONMENT\n.TP\n.B TRAINYARD_DATA\nthe folder that holds models/, topologies/ and "
         "kernels/, where it is not the installed one\n";
}

// The allowed values of an option, from its type such as "{simgrid,ideal}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');)
    choices.push_back(word.substr(0, word.find("->")));
  return choices;
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

// One entry of a shell `case`: the pattern and the words that it offers.
std::string shell_case(const std::string& pattern, const std::vector<std::string>& words) {
  return fmt::format("    '{}') words='{}' ;;\n", pattern, fmt::join(words, " "));
}

std::string completion(const CLI::App& app) {
  std::string commands, options, values;
  walk(app, "", [&](const CLI::App& command, const std::string& words) {
    std::vector<std::string> names;
    for (const CLI::App* below : commands_of(command)) names.push_back(below->get_name());
    std::vector<std::string> longs;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        longs.push_back("--" + name);
        const std::vector<std::string> choices = choices_of(*option);
        if (!choices.empty()) values += shell_case(words + " --" + name, choices);
      }
      if (!option->nonpositional())
        for (const std::string& choice : choices_of(*option)) names.push_back(choice);
    }
    if (!names.empty()) commands += shell_case(words, names);
    options += shell_case(words, longs);
  });
  return kCompletionHead + values + kCompletionOptions + options + kCompletionWords + commands +
         kCompletionEnd;
}

}  // namespace

void add_pages(CLI::App& app, Action& action) {
  CLI::App* man = app.add_subcommand("man", "Print the manual page");
  man->footer("Example:\n  trainyard man > trainyard.1");
  man->callback([&app, &action] {
    action = [&app] {
      say("{}", manual(app));
      return Exit::Fine;
    };
  });
  CLI::App* complete = app.add_subcommand("completion", "Print what completes commands in a shell");
  // Bash is the only choice: the parser checks the word, and the program does not store it.
  complete->add_option("shell", "Which one")->required()->check(CLI::IsMember({"bash"}));
  complete->footer("Example:\n  trainyard completion bash > trainyard.bash");
  complete->callback([&app, &action] {
    action = [&app] {
      say("{}", completion(app));
      return Exit::Fine;
    };
  });
}

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of a scenario file");
  command->footer("Example:\n  trainyard schema > scenario.schema.json");
  command->callback([&action] {
    action = [] {
      say("{}\n", scenario_schema().dump(2));
      return Exit::Fine;
    };
  });
}

}  // namespace trainyard
