// `trainyard man`, `completion` and `schema`: manual pages, completion scripts of shells, and the
// JSON Schemas of scenarios and of files of jobs, for editors. The first two are generated from the
// options that the program parses, so they are never out of date.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/jobs/jobs.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/completion.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/version.hpp"

namespace trainyard {

namespace {

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

// The name of a page: "trainyard", "trainyard-show-topology".
std::string page_name(const std::string& words) {
  std::string name = words.empty() ? "trainyard" : "trainyard " + words;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string page_head(const std::string& words, const std::string& what) {
  std::string title = page_name(words);
  std::ranges::transform(title, title.begin(),
                         [](unsigned char letter) { return std::toupper(letter); });
  return fmt::format(
      ".TH {} 1 \"\" \"Trainyard {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
      roff(title), roff(version_number()), roff(page_name(words)), roff(what));
}

std::string options_text(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    if (joined_names(*option) != "-h, --help") text += option_entry(*option);
  return text;
}

std::string sentence(const std::string& text) {
  return roff(text) + (text.ends_with('?') || text.ends_with('.') ? "" : ".");
}

std::string command_section(const CLI::App& command, const std::string& words) {
  return fmt::format(".SS trainyard {}\n{}\n", roff(words), sentence(command.get_description())) +
         options_text(command) + ".PP\n" + footer_text(command.get_footer());
}

// The end of every page: exit codes, the variables of the environment, and files.
constexpr const char* kPageEnd = R"roff(.SH EXIT STATUS
.TP
0
fine
.TP
1
the run says no: it does not fit, or deadlocks
.TP
2
bad input or usage
.TP
70
a fault of trainyard
.TP
130
interrupted (Ctrl-C)
.SH ENVIRONMENT
.TP
.B TRAINYARD_DATA
folders of data files, separated by colons, that are read before all others
.TP
.B SOURCE_DATE_EPOCH
seconds since 1970 of the date in imported files, so that they are the same on every day
.SH FILES
.TP
.I $XDG_DATA_HOME/trainyard\fR, by default \fI~/.local/share/trainyard
data files of the user; one of the same name as a shipped file replaces it
.TP
.I $XDG_CONFIG_HOME/trainyard/settings.json\fR, by default \fI~/.config/trainyard/settings.json
settings: \fBdata\fR, more folders of data files, and \fBprocesses\fR, \fBnode\fR and \fBfabric\fR,
the defaults of the options of these names
)roff";

// The page of the whole program.
std::string manual(const CLI::App& app) {
  std::string text = page_head("", "simulate training steps of large models on GPU clusters") +
                     fmt::format(
                         ".B trainyard\n.I COMMAND\n[\\fIOPTION\\fR...]\n.SH "
                         "DESCRIPTION\n{}\n.PP\n{}.SH COMMANDS\n",
                         roff(app.get_description()), footer_text(app.get_footer()));
  walk(app, [&text](const CLI::App& command, const std::string& words) {
    if (!words.empty()) text += command_section(command, words);
  });
  return text + kPageEnd;
}

// The page of one command.
std::string command_page(const CLI::App& command, const std::string& words) {
  std::string arguments;
  for (const CLI::Option* option : command.get_options())
    if (!option->nonpositional()) arguments += " \\fI" + roff(option->get_name(true)) + "\\fR";
  std::string text = page_head(words, command.get_description()) +
                     fmt::format(".B trainyard {}\n[\\fIOPTION\\fR...]{}\n.SH DESCRIPTION\n{}\n",
                                 roff(words), arguments, sentence(command.get_description()));
  const std::string options = options_text(command);
  if (!options.empty()) text += ".SH OPTIONS\n" + options;
  const std::string commands = [&command] {
    std::string list;
    for (const CLI::App* below : commands_of(command))
      list +=
          fmt::format(".TP\n.B {}\n{}\n", roff(below->get_name()), roff(below->get_description()));
    return list;
  }();
  if (!commands.empty()) text += ".SH COMMANDS\n" + commands;
  if (!command.get_footer().empty()) text += ".SH EXAMPLES\n" + footer_text(command.get_footer());
  return text + kPageEnd + ".SH SEE ALSO\n.BR trainyard (1)\n";
}

std::string page_of(const CLI::App& app, const std::string& words) {
  if (words.empty()) return manual(app);
  std::string page;
  std::vector<std::string> known;
  walk(app, [&](const CLI::App& command, const std::string& name) {
    if (!name.empty()) known.push_back(name);
    if (name == words) page = command_page(command, words);
  });
  if (page.empty())
    throw InputError(Problem{"", "", fmt::format("there is no command \"{}\"", words),
                             suggestion(words, known)});
  return page;
}

void write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  walk(app, [&](const CLI::App&, const std::string& words) {
    write_file(folder / (page_name(words) + ".1"), page_of(app, words));
  });
}

}  // namespace

void add_pages(CLI::App& app, Action& action) {
  struct Choice {
    std::vector<std::string> words;
    std::string out;
  };
  const auto choice = std::make_shared<Choice>();
  CLI::App* man = app.add_subcommand("man", "Print the manual page");
  CLI::Option* words = man->add_option("command", choice->words, "Of this command alone");
  man->add_option("--out", choice->out, "Write the page of every command into this folder")
      ->excludes(words);
  man->footer("Example:\n  trainyard man run > trainyard-run.1");
  man->callback([&app, choice, &action] {
    action = [&app, choice] {
      if (!choice->out.empty())
        write_pages(app, choice->out);
      else
        say("{}", page_of(app, fmt::format("{}", fmt::join(choice->words, " "))));
      return Exit::Fine;
    };
  });
  const auto shell = std::make_shared<std::string>();
  CLI::App* complete = app.add_subcommand("completion", "Print what completes commands in a shell");
  complete->add_option("shell", *shell, "Which one")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  complete->footer("Example:\n  trainyard completion bash > trainyard.bash");
  complete->callback([&app, shell, &action] {
    action = [&app, shell] {
      say("{}", completion(app, *shell));
      return Exit::Fine;
    };
  });
}

void add_schema(CLI::App& app, Action& action) {
  const auto document = std::make_shared<std::string>("scenario");
  CLI::App* command =
      app.add_subcommand("schema", "Print the JSON Schema of a scenario file, or of another file");
  command->add_option("document", *document, "scenario, or jobs: the file of `trainyard jobs`")
      ->type_name("NAME")
      ->check(CLI::IsMember({"scenario", "jobs"}));
  command->footer(
      "Example:\n  trainyard schema > scenario.schema.json\n"
      "  trainyard schema jobs > jobs.schema.json");
  command->callback([document, &action] {
    action = [document] {
      say("{}\n", (*document == "jobs" ? jobs_schema() : scenario_schema()).dump(2));
      return Exit::Fine;
    };
  });
}

}  // namespace trainyard
