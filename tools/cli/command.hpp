// The commands of `trainyard`, and what they share: options of a scenario, the verdict on memory,
// the explanation of a step, errors of usage. Each file command_<name>.cpp adds one subcommand to
// the parser and says what it does when chosen; main.cpp runs the choice and turns errors into exit
// codes.
//
// To add a command: one file, one line here, one row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/render/page/page.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Exit codes of the command (design section 3).
enum class Exit : int { Fine = 0, RunSaysNo = 1, BadInput = 2, Internal = 70 };

// The work of the chosen subcommand; the parser's callback sets it.
using Action = std::function<Exit()>;

// Each adds one subcommand to the parser.
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
void add_compare(CLI::App& app, Action& action);
void add_init(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_search(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);

// The formats of `trainyard import`. Each is one function here, its file import_<what>.cpp, a row
// in command_import.cpp, and a line in CMakeLists.txt.
void add_import_chakra(CLI::App& import, Action& action);
void add_import_hf_config(CLI::App& import, Action& action);
void add_import_megatron(CLI::App& import, Action& action);
void add_import_nccl_tests(CLI::App& import, Action& action);
void add_import_nccl_topo(CLI::App& import, Action& action);
void add_import_topo_m(CLI::App& import, Action& action);

// "--set parallelism.tensor=8" on a subcommand that reads a scenario.
struct ScenarioChoice {
  std::string file;
  std::vector<std::string> sets;
  bool ideal = false;  // "defaults": "ideal"
};
void add_scenario_options(CLI::App& command, ScenarioChoice& choice, bool required = true);
// Adds the option --ideal alone.
void add_ideal_option(CLI::App& command, bool& ideal);
// The change that --ideal makes in a scenario.
[[nodiscard]] Override ideal_override();
// The overrides as they were given. Throws InputError for one without "=".
[[nodiscard]] std::vector<Override> overrides_of(const ScenarioChoice& choice);
// Reads the chosen scenario. Throws InputError; an override without "=" is one.
[[nodiscard]] Scenario read(const ScenarioChoice& choice);

// Fine when every stage fits its GPU, else RunSaysNo.
[[nodiscard]] Exit verdict(const RunView& view);

// Why the step takes as long as it does and what would make it shorter, for `explain` and
// `run --explain`.
struct Explanation {
  std::string text;             // critical path, slack, sensitivities
  nlohmann::ordered_json json;  // {critical_path, sensitivities}
  std::vector<PageGain> gains;
};
// Simulates each what-if, on `processes` cores (0: all).
[[nodiscard]] Explanation explanation(const Scenario& scenario, const Result& run,
                                      std::size_t processes);

// The date of SOURCE_DATE_EPOCH where it is set, for files that are the same every day
// (reproducible-builds.org); else today, in UTC.
[[nodiscard]] std::string import_date();

// Says what is wrong with a command line, in one line with its remedy: "there is no option --enigne
// here (did you mean --engine?)". `error` is what parsing threw; `app` is the parser afterwards.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

// Says what is wrong with the arguments of a line that was parsed: one is empty, as a shell's
// variable that is not set, or is no text in UTF-8. The answer is empty where nothing is wrong.
[[nodiscard]] std::string argument_problem(const CLI::App& app);

}  // namespace trainyard
