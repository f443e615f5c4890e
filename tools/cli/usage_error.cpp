#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/base/nearest.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"

namespace trainyard {

namespace {

// The command that the user typed so far, such as "trainyard show topology".
struct TypedCommand {
  const CLI::App* command = nullptr;
  std::string words;
};

TypedCommand typed_command(const CLI::App& app) {
  TypedCommand result{.command = &app, .words = app.get_name()};
  while (!result.command->get_subcommands().empty()) {
    result.command = result.command->get_subcommands().back();
    result.words += " " + result.command->get_name();
  }
  return result;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Whether the flag was typed, before or after the command.
bool has_flag(const CLI::App& app, const std::string& flag) {
  return app.get_option(flag)->count() > 0 ||
         std::ranges::any_of(app.get_subcommands(),
                             [&](const CLI::App* command) { return has_flag(*command, flag); });
}

// Options of earlier releases. A command is named by the words it begins with.
struct RenamedOption {
  std::string_view command;
  std::string_view option;
  std::string_view now;
};
constexpr std::array kRenamed{
    RenamedOption{"trainyard sweep", "--out", "--journal"},
    RenamedOption{"trainyard search", "--out", "--journal"},
    RenamedOption{"trainyard run", "--csv", "--tables"},
    RenamedOption{"trainyard init", "--out", "--output"},
    RenamedOption{"trainyard import", "--out", "--output"},
    RenamedOption{"trainyard profile", "--out", "--output"},
    RenamedOption{"trainyard show", "--matrix", "--format matrix"},
    RenamedOption{"trainyard show", "--dot", "--format dot"},
    RenamedOption{"trainyard show", "--json", "--format json"},
    RenamedOption{"trainyard show", "--nccl-xml", "--format nccl-xml"},
    RenamedOption{"trainyard show", "--simgrid-xml", "--format simgrid-xml"}};

std::string unknown_option(const TypedCommand& at, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  for (const RenamedOption& renamed : kRenamed)
    if (at.words.starts_with(renamed.command) && word == renamed.option)
      return fmt::format("{} is called {} here", word, renamed.now);
  const std::string near = nearest(word, option_names(*at.command));
  const std::string hint = near.empty() ? fmt::format("`{} --help` shows the options", at.words)
                                        : fmt::format("did you mean {}?", near);
  return fmt::format("there is no option {} here ({})", word, hint);
}

}  // namespace

// The parser throws one kind of exception for several mistakes, so the words that it left over are
// looked at first: an unknown option, a word that is no command, a word too many. Its own message
// is the last resort, since it names no remedy.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const TypedCommand at = typed_command(app);
  const std::vector<std::string> rest = app.remaining(true);
  const std::vector<std::string> commands = command_names(*at.command);
  const std::string help = fmt::format("`{} --help` shows what it takes", at.words);
  if (!rest.empty() && rest.front().starts_with("-")) return unknown_option(at, rest.front());
  const bool needs_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!commands.empty() && rest.empty() && needs_command) {
    return fmt::format("{} what? {} ({})", at.words, fmt::join(commands, ", "), help);
  }
  if (!commands.empty() && !rest.empty()) {
    return fmt::format("\"{} {}\" is not a command ({})", at.words, rest.front(),
                       suggestion(rest.front(), commands));
  }
  if (!rest.empty()) return fmt::format("\"{}\" is one too many ({})", rest.front(), help);
  std::string problem = error.what();
  std::replace(problem.begin(), problem.end(), '\n', ' ');
  return fmt::format("{} ({})", problem, help);
}

std::string argument_problem(const CLI::App& app) {
  const TypedCommand at = typed_command(app);
  if (has_flag(app, "--quiet") && has_flag(app, "--verbose"))
    return "--quiet prints errors only, and --verbose says more than the report (leave one out)";
  for (const CLI::Option* option : at.command->get_options()) {
    for (const std::string& value : option->results()) {
      // Between lists of lists (`compare --set`) the parser inserts empty values itself.
      if (value.empty() && !option->get_inject_separator())
        return fmt::format("{} is empty (`{} --help` shows what it takes)", option->get_name(),
                           at.words);
      if (!is_utf8(value))
        return fmt::format("{} is not UTF-8: \"{}\" (rename the file, or write it in UTF-8)",
                           option->get_name(), as_utf8(value));
    }
  }
  return "";
}

}  // namespace trainyard
