// The commands of `trainyard`. Each file command_<name>.cpp adds one subcommand to the parser and
// says what it does when chosen; main.cpp runs the choice and turns errors into exit codes.
//
// To add a command: one file, one line here, one row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Exit codes of the command (design section 3).
enum class Exit : int { Fine = 0, RunSaysNo = 1, BadInput = 2, Internal = 70 };

// What the chosen subcommand will do; set by the parser's callback.
using Action = std::function<Exit()>;

void add_run(CLI::App& app, Action& action);
void add_memory(CLI::App& app, Action& action);
void add_schedule(CLI::App& app, Action& action);
void add_collective(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);
void add_pages(CLI::App& app, Action& action);  // man, completion
void add_schema(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);

// "--set parallelism.tensor=8" on a subcommand that reads a scenario.
struct ScenarioChoice {
  std::string file;
  std::vector<std::string> sets;
  bool ideal = false;  // "defaults": "ideal"
};
void add_scenario_options(CLI::App& command, ScenarioChoice& choice, bool required = true);
// The option --ideal alone, and what it changes in a scenario.
void add_ideal_option(CLI::App& command, bool& ideal);
[[nodiscard]] Override ideal_override();
// The overrides as they were given. Throws InputError for one without "=".
[[nodiscard]] std::vector<Override> overrides_of(const ScenarioChoice& choice);
// Reads the chosen scenario. Throws InputError; an override without "=" is one.
[[nodiscard]] Scenario read(const ScenarioChoice& choice);

// Fine when every stage fits its GPU, else RunSaysNo.
[[nodiscard]] Exit verdict(const RunView& view);

}  // namespace trainyard
