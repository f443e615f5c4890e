// `trainyard explain`: shows the critical path of a step, the slack of the other operations, and
// the changes that would shorten the step.
#include <fmt/format.h>

#include <utility>

#include "sim/base/files.hpp"
#include "sim/report/path_summary.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/explain/sensitivity.hpp"

namespace trainyard {

namespace {

struct ExplainChoice {
  ScenarioChoice scenario;
  std::string json, csv;
  std::size_t processes = 0;
};

Exit explain(const ExplainChoice& choice) {
  refuse_outputs({choice.json, choice.csv}, {choice.scenario.file});
  const Scenario scenario = read(choice.scenario);
  const Result run = simulate(scenario, {});
  const Explanation why = explanation(scenario, run, choice.processes);
  if (!choice.json.empty()) write_file(choice.json, to_text(why.json));
  if (!choice.csv.empty()) write_file(choice.csv, path_csv(run.view()));
  say("{}\n{}", verdict_line(run.view()), why.text);
  return verdict(run.view());
}

}  // namespace

Explanation explanation(const Scenario& scenario, const Result& run, std::size_t processes) {
  Progress progress("supposing");
  const std::vector<Sensitivity> rows = sensitivities(
      scenario, run, {.processes = processes, .progress = [&](std::size_t done, std::size_t all) {
                        progress.show(static_cast<double>(done) / static_cast<double>(all));
                      }});
  std::vector<PageGain> gains;
  for (const Sensitivity& row : rows)
    gains.push_back({.name = row.name, .step_time_s = row.step_time_s, .saving = row.saving()});
  return {.text = path_section(run.view()) + "\n" + sensitivities_text(rows),
          .json = {{"critical_path", path_json(run.view())},
                   {"sensitivities", sensitivities_json(rows)}},
          .gains = std::move(gains)};
}

void add_explain(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ExplainChoice>();
  CLI::App* command =
      app.add_subcommand("explain", "Show the critical path and what would make a step shorter");
  add_scenario_options(*command, choice->scenario);
  add_output_file(*command, "--json", choice->json,
                  "Write critical path, slack and sensitivities as JSON");
  add_output_file(*command, "--csv", choice->csv, "Write every piece of the critical path as CSV");
  add_processes_option(*command, choice->processes);
  command->footer("Example:\n  trainyard explain scenarios/llama3/llama3_8b_8xh100.json");
  command->callback([choice, &action] { action = [choice] { return explain(*choice); }; });
}

}  // namespace trainyard
