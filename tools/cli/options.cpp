// All commands share these parts of their options: the names of what they take, how much is
// printed, and the command `help`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

// The help shows this type of an option. An option means the same in every command.
struct OptionType {
  std::string_view option;
  std::string_view type;
};
constexpr std::array kTypes{OptionType{"--against", "FILE"},
                            OptionType{"--algorithm", "NAME"},
                            OptionType{"--algorithms", "NAME,..."},
                            OptionType{"--as", "NAME"},
                            OptionType{"--cache", "FILE"},
                            OptionType{"--cluster", "FILE"},
                            OptionType{"--collectives", "FILE"},
                            OptionType{"--constants", "FILE#/POINTER"},
                            OptionType{"--csv", "FILE"},
                            OptionType{"--define", "NAME=VALUE"},
                            OptionType{"--dimensions", "N,..."},
                            OptionType{"--dtype", "NAME"},
                            OptionType{"--duration-unit", "UNIT"},
                            OptionType{"--durations", "NAME"},
                            OptionType{"--engine", "NAME"},
                            OptionType{"--intervals", "FILE"},
                            OptionType{"--coverage", "FILE"},
                            OptionType{"--every", "N"},
                            OptionType{"--fabric", "NAME"},
                            OptionType{"--gpu", "NAME"},
                            OptionType{"--gpus", "N"},
                            OptionType{"--gpus-per-node", "N"},
                            OptionType{"--group", "GROUP"},
                            OptionType{"--group-by", "NAME,..."},
                            OptionType{"--groups", "FILE"},
                            OptionType{"--hold-out", "SHARE"},
                            OptionType{"--guess", "FILE"},
                            OptionType{"--hostfile", "FILE"},
                            OptionType{"--json", "FILE"},
                            OptionType{"--leave-out", "NAME"},
                            OptionType{"--level-of", "NAME"},
                            OptionType{"--measured", "FILE"},
                            OptionType{"--model", "NAME"},
                            OptionType{"--most", "N"},
                            OptionType{"--nccl-algo", "NAMES"},
                            OptionType{"--nccl-max-nchannels", "N"},
                            OptionType{"--nccl-min-nchannels", "N"},
                            OptionType{"--nccl-proto", "NAMES"},
                            OptionType{"--nccl-version", "RELEASE"},
                            OptionType{"--nic", "RATE"},
                            OptionType{"--node", "NAME"},
                            OptionType{"--nodes", "N"},
                            OptionType{"--only", "ID,..."},
                            OptionType{"--op", "NAME"},
                            OptionType{"--out", "FOLDER"},
                            OptionType{"--output", "FILE"},
                            OptionType{"--parallelism", "NAME=N,..."},
                            OptionType{"--per-node", "N"},
                            OptionType{"--processes", "N"},
                            OptionType{"--profile", "FILE"},
                            OptionType{"--rank", "N"},
                            OptionType{"--ranks", "RANKS"},
                            OptionType{"--ranks-per-node", "N"},
                            OptionType{"--report", "NAME"},
                            OptionType{"--rounds", "N"},
                            OptionType{"--scenario", "FILE"},
                            OptionType{"--scenarios", "FOLDER"},
                            OptionType{"--seed", "N"},
                            OptionType{"--sequence", "N"},
                            OptionType{"--sizes", "BYTES"},
                            OptionType{"--source", "TEXT"},
                            OptionType{"--split", "KIND=N"},
                            OptionType{"--step-range", "NAME"},
                            OptionType{"--svg", "FILE"},
                            OptionType{"--type", "NAME"},
                            OptionType{"--vocab", "N"},
                            OptionType{"--worst", "N"}};

constexpr std::array<std::string_view, 4> kTypesOfVariables{"TEXT", "INT", "UINT", "FLOAT"};

// The names of options without dashes ("scenario") say themselves what they take: a file unless
// listed here.
constexpr std::array kWords{OptionType{"op", "NAME"}, OptionType{"kind", "NAME"},
                            OptionType{"shell", "NAME"}, OptionType{"command", "NAME"}};

std::string_view type_of(const CLI::Option& option) {
  if (!option.nonpositional()) {
    const auto found = std::ranges::find(kWords, option.get_single_name(), &OptionType::option);
    return found == kWords.end() ? "FILE" : found->type;
  }
  for (const std::string& name : option.get_lnames()) {
    const std::string dashed = "--" + name;
    const auto found = std::ranges::find(kTypes, dashed, &OptionType::option);
    if (found != kTypes.end()) return found->type;
  }
  return {};
}

// "TEXT:{a,b}" begins with the type of the variable.
bool shows_a_variable(const CLI::Option& option) {
  const std::string shown = option.get_type_name();
  return std::ranges::count(kTypesOfVariables, shown.substr(0, shown.find(':'))) > 0;
}

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The help of the command that the words name: {"show", "topology"}.
std::string help_of(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* at = &app;
  std::string above;  // the words before the command's own name
  std::string path = app.get_name();
  for (const std::string& word : words) {
    std::vector<std::string> names;
    CLI::App* next = nullptr;
    for (CLI::App* command : commands_of(*at)) {
      names.push_back(command->get_name());
      if (names.back() == word) next = command;
    }
    above = path;
    path += " " + word;
    if (next == nullptr) {
      throw InputError(Problem{.file = {},
                               .pointer = {},
                               .problem = fmt::format("\"{}\" is not a command", path),
                               .hint = suggestion(word, names)});
    }
    at = next;
  }
  return at->help(above, CLI::AppFormatMode::Normal);
}

}  // namespace

void name_what_options_take(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string_view type = type_of(*option);
    if (shows_a_variable(*option) && !type.empty()) option->type_name(std::string(type));
  }
  for (CLI::App* command : commands_of(app)) name_what_options_take(*command);
}

void add_report_options(CLI::App& app) {
  const std::map<std::string, Colour> colours{
      {"auto", Colour::Auto}, {"always", Colour::Always}, {"never", Colour::Never}};
  app.add_flag_callback("-q,--quiet", silence_report, "Print errors only");
  app.add_flag_callback("-v,--verbose", tell_details,
                        "Say on standard error what is read, and how long the stages of run take");
  app.add_option_function<Colour>("--color", choose_colour,
                                  "Colour verdicts, titles and bars (auto: on a terminal)")
      ->type_name("WHEN")
      ->transform(CLI::CheckedTransformer(colours).description("{always,auto,never}"));
  for (CLI::App* command : commands_of(app)) add_report_options(*command);
}

void add_help(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("help", "Show the help of a command, as --help does");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "The command, such as run or show topology");
  command->footer("Example:\n  trainyard help run");
  command->callback([&app, words, &action] {
    action = [&app, words] {
      say("{}", help_of(app, *words));
      return Exit::Fine;
    };
  });
}

}  // namespace trainyard
