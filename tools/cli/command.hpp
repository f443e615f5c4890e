// The subcommands of `trainyard` and what they share: the options of a scenario, the verdict on
// memory, the explanation of a step, and the messages for usage errors. Each file
// command_<name>.cpp adds one subcommand to the parser and sets the action that runs when the user
// chooses it. main.cpp runs this action and turns errors into exit codes.
//
// To add a command, write one file, add one declaration here, and add one table entry in main.cpp.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/settings.hpp"
#include "sim/render/page/page.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Exit codes of the command: success (0), a negative result (1: the step does not fit in memory, or
// it deadlocks), bad input or usage (2), an internal error (70), and an interrupt (130, as shells
// say).
enum class Exit : int { Fine = 0, RunSaysNo = 1, BadInput = 2, Internal = 70, Interrupted = 130 };

// The program that measures on GPUs; nothing where it is not built.
[[nodiscard]] std::optional<std::filesystem::path> profiler_program(const std::string& name);

// The work of the chosen subcommand; the parser's callback sets it.
using Action = std::function<Exit()>;

// Each function adds one subcommand to the parser.
void add_run(CLI::App& app, Action& action);
void add_memory(CLI::App& app, Action& action);
void add_schedule(CLI::App& app, Action& action);
void add_collective(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);
void add_pages(CLI::App& app, Action& action);  // adds `man` and `completion`
void add_schema(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_init(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_goodput(CLI::App& app, Action& action);
void add_goodput_fit(CLI::App& goodput, Action& action);  // a subcommand of `goodput`
void add_jobs(CLI::App& app, Action& action);
void add_search(CLI::App& app, Action& action);
void add_help(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);

// The processes of `trainyard serve` are this program with other arguments.
[[nodiscard]] bool is_serve_worker(std::span<char*> arguments);
[[nodiscard]] Exit serve_worker(std::span<char*> arguments);

// The formats of `trainyard import` that make something other than a scenario. Each has one
// function here, one file import_<what>.cpp, one table entry in command_import.cpp, and one line in
// CMakeLists.txt. Formats that make a scenario are rows of training_formats()
// (scenarios/import/training/training_format.hpp).
void add_import_chakra(CLI::App& import, Action& action);
void add_import_hf_config(CLI::App& import, Action& action);
void add_import_ib_fabric(CLI::App& import, Action& action);
void add_import_launch(CLI::App& import, Action& action);
void add_import_kineto(CLI::App& import, Action& action);
void add_import_nccl_tests(CLI::App& import, Action& action);
void add_import_nccl_topo(CLI::App& import, Action& action);
void add_import_nsys(CLI::App& import, Action& action);
void add_import_topo_m(CLI::App& import, Action& action);

// The options that every command has: --quiet, --verbose and --color.
void add_report_options(CLI::App& app);

// The options of a subcommand that reads a scenario: the file, and overrides such as "--set
// parallelism.tensor=8".
struct ScenarioChoice {
  std::string file;
  std::vector<std::string> sets;
  bool ideal = false;  // sets "defaults" to "ideal"
};
void add_scenario_options(CLI::App& command, ScenarioChoice& choice, bool required = true);
// Adds only the option --set.
CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& sets);
// Adds only the option --ideal.
void add_ideal_option(CLI::App& command, bool& ideal);
// The override that --ideal applies to a scenario.
[[nodiscard]] Override ideal_override();
// Adds an option that names one file to write. "-" is standard output, which then receives that
// file and no report.
CLI::Option* add_output_file(CLI::App& command, const std::string& names, std::string& file,
                             const std::string& help);
// Adds the option --journal.
void add_journal_option(CLI::App& command, std::string& file);
// Adds the option --processes.
void add_processes_option(CLI::App& command, std::size_t& processes);
// Adds the option --seed of random numbers.
void add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& help);
// Adds the option --tokens, which takes numbers such as 15T.
void add_tokens_option(CLI::App& command, double& tokens, const std::string& help);
// An alternative of --versus: "NAME: PATH=VALUE,PATH=VALUE", or the changes alone, which are then
// the name as well.
struct Versus {
  std::string name;
  std::vector<std::string> changes;
};
[[nodiscard]] Versus versus_of(const std::string& text);
// Adds the option --price, of one GPU for an hour. `help` says what it adds to the report.
void add_price_option(CLI::App& command, double& price, const std::string& help);
// Accepts numbers from `least` to `most`. CLI::Range words its refusal in another way in each
// release, and accepts NaN.
template <class Number>
[[nodiscard]] CLI::Validator in_range(Number least, Number most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return {[=](const std::string& text) {
            Number value{};
            const bool fits =
                CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return fits ? std::string() : fmt::format("{} is not a number from {}", text, range);
          },
          range};
}

// The overrides in the order of the command line, after that of --ideal. Throws InputError for an
// override without "=".
[[nodiscard]] std::vector<Override> overrides_of(const ScenarioChoice& choice);
// Reads the chosen scenario. Throws InputError, also for an override without "=".
[[nodiscard]] Scenario read(const ScenarioChoice& choice);

// Exit::Fine if every stage fits its GPU and the offloaded state fits the host, else
// Exit::RunSaysNo.
[[nodiscard]] Exit verdict(const RunView& view);

// Explains why the step takes as long as it does, and which changes make it shorter. `explain` and
// `run --explain` print it.
struct Explanation {
  std::string text;             // critical path, slack, sensitivities
  nlohmann::ordered_json json;  // {critical_path, sensitivities}
  std::vector<PageGain> gains;
};
// Simulates each what-if, on `processes` cores (0: all cores).
[[nodiscard]] Explanation explanation(const Scenario& scenario, const Result& run,
                                      std::size_t processes);

// Gives the options that the user's settings name their defaults, in every command that has them.
// Throws InputError for a value that an option does not take.
void take_defaults(CLI::App& app, const Settings& settings);

// The date for the header of an imported file, as YYYY-MM-DD in UTC. It is the date of
// SOURCE_DATE_EPOCH if that variable is set, so that the file is the same on every day
// (reproducible-builds.org), and today otherwise.
[[nodiscard]] std::string import_date();

// Gives every option that would show the type of its variable in the help (TEXT, INT) the name of
// what it takes (FILE, NAME, N). The table of names has one entry for an option, so that the option
// takes the same in every command.
void name_what_options_take(CLI::App& app);

// Lists the assumptions of an importer: "assumed:" and a line for each. Empty without any.
[[nodiscard]] std::string assumptions_text(const std::vector<std::string>& assumed);

// One line that names the error in a command line and its remedy: "there is no option --enigne here
// (did you mean --engine?)". `error` is the exception of the parser, and `app` is the parser after
// it has thrown.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

// The error in the arguments of a command line that the parser has accepted: an argument that is
// empty, for example because a shell variable is not set, or that is not UTF-8. The result is empty
// if there is no error.
[[nodiscard]] std::string argument_problem(const CLI::App& app);

}  // namespace trainyard
