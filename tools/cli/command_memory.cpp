// `trainyard memory`: shows the memory of every stage over the step, whether it fits, and which
// changes would make it fit.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/memory/memory_report.hpp"

namespace trainyard {

namespace {

struct MemoryChoice {
  ScenarioChoice scenario;
  OutputChoice outputs;
  std::string html;
  bool no_search = false;
};

Exit memory(const MemoryChoice& choice) {
  const Outputs outputs = outputs_of(choice.outputs);
  refuse_unwritable(outputs);
  std::vector<std::filesystem::path> files = files_of(outputs);
  files.emplace_back(choice.html);
  refuse_outputs(files, {choice.scenario.file});
  const Scenario scenario = read(choice.scenario);
  Result run;
  {
    Progress progress("simulating");
    run = simulate(scenario, {.progress = [&](double fraction) { progress.show(fraction); }});
  }
  MemoryReport report{.scenario = scenario, .run = run, .search = {}};
  const Exit exit = verdict(run.view());
  if (exit != Exit::Fine && !choice.no_search) {
    Progress progress("looking for what fits");
    report.search = ways_to_fit({.scenario = {choice.scenario.file, overrides_of(choice.scenario)},
                                 .progress = [&](double fraction) { progress.show(fraction); }},
                                scenario, fit_figures(scenario, run));
  }
  if (outputs.json) write_file(*outputs.json, to_text(memory_json(report)));
  if (!choice.html.empty()) write_file(choice.html, memory_page(report));
  say("{}", memory_text(report));
  return exit;
}

}  // namespace

void add_memory(CLI::App& app, Action& action) {
  auto choice = std::make_shared<MemoryChoice>();
  CLI::App* command = app.add_subcommand(
      "memory", "Show what fits, stage by stage, category by category, and what would");
  add_scenario_options(*command, choice->scenario);
  add_output_file(*command, "--json", choice->outputs.json,
                  "Write peaks, curves and the changes that would fit as JSON");
  add_output_file(*command, "--html", choice->html,
                  "Write a page with the memory of each stage over time");
  command->add_flag("--no-search", choice->no_search,
                    "Where it does not fit: do not look for what would");
  command->footer(
      "Example:\n  trainyard memory scenarios/llama3/llama3_70b_64xh100.json --set "
      "training.recompute=full\n"
      "Exit code 1 says that a stage does not fit.");
  command->callback([choice, &action] { action = [choice] { return memory(*choice); }; });
}

}  // namespace trainyard
