#include "tools/cli/usage_error.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/nearest.hpp"

namespace trainyard {

namespace {

// The command as the user began it: "trainyard show topology".
struct Begun {
  const CLI::App* command = nullptr;
  std::string words;
};

Begun begun(const CLI::App& app) {
  Begun result{.command = &app, .words = app.get_name()};
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

std::string unknown_option(const Begun& at, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  const std::string near = nearest(word, option_names(*at.command));
  const std::string hint = near.empty() ? fmt::format("`{} --help` shows the options", at.words)
                                        : fmt::format("did you mean {}?", near);
  return fmt::format("there is no option {} here ({})", word, hint);
}

}  // namespace

std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const Begun at = begun(app);
  const std::vector<std::string> rest = app.remaining(true);
  const std::vector<std::string> commands = command_names(*at.command);
  const std::string help = fmt::format("`{} --help` shows what it takes", at.words);
  if (!rest.empty() && rest.front().starts_with("-")) return unknown_option(at, rest.front());
  if (!commands.empty() && rest.empty()) {
    return fmt::format("{} what? {} ({})", at.words, fmt::join(commands, ", "), help);
  }
  if (!commands.empty()) {
    return fmt::format("\"{} {}\" is not a command ({})", at.words, rest.front(),
                       suggestion(rest.front(), commands));
  }
  if (!rest.empty()) return fmt::format("\"{}\" is one too many ({})", rest.front(), help);
  std::string problem = error.what();
  std::replace(problem.begin(), problem.end(), '\n', ' ');
  return fmt::format("{} ({})", problem, help);
}

}  // namespace trainyard
