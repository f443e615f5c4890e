// `trainyard memory`: what every stage holds at its peak, and whether it fits.
#include <fmt/format.h>

#include "scenarios/run/run.hpp"
#include "sim/report/report.hpp"
#include "sim/report/sections.hpp"
#include "tools/cli/command.hpp"

namespace trainyard {

namespace {

Exit memory(const ScenarioChoice& choice) {
  const Run run = run_scenario(read(choice), {});
  fmt::print("{}\n{}", verdict_line(run.view()), find_report("memory")->text(run.view()));
  return verdict(run.view());
}

}  // namespace

void add_memory(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ScenarioChoice>();
  CLI::App* command =
      app.add_subcommand("memory", "Show what fits, stage by stage, category by category");
  add_scenario_options(*command, *choice);
  command->footer(
      "Example:\n  trainyard memory scenarios/llama3/llama3_70b_64xh100.json --set "
      "training.recompute=full");
  command->callback([choice, &action] { action = [choice] { return memory(*choice); }; });
}

}  // namespace trainyard
