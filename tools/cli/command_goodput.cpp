// `trainyard goodput`: how long a training run of weeks takes with failures, checkpoints and
// restarts, and where its time goes.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/goodput/report.hpp"

namespace trainyard {

namespace {

struct GoodputChoice {
  ScenarioChoice scenario;
  std::string preset, json, csv;
  double days = 0.0, tokens = 0.0, price = 0.0;
  std::size_t runs = 0;
  std::uint64_t seed = 0;
};

// The length of the run in wall time, or in steps.
RunLength length_of(const GoodputChoice& choice, const Job& job) {
  if (choice.days > 0.0) return {.wall_s = choice.days * kSecondsPerDay};
  return {.steps = std::ceil(choice.tokens / job.tokens_per_step)};
}

Goodput sampled(const Scenario& scenario, const Job& job, const GoodputChoice& choice) {
  Progress progress("sampling");
  const Interrupt interrupt;
  return goodput(job, {.file = scenario.file,
                       .length = length_of(choice, job),
                       .seed = choice.seed,
                       .runs = choice.runs,
                       .progress = [&](double fraction) { progress.show(fraction); },
                       .end = [&] { return interrupt.pending_interrupt(); }});
}

Exit goodput(const GoodputChoice& choice) {
  refuse_unwritable(choice.json);
  refuse_unwritable(choice.csv);
  if ((choice.days > 0.0) == (choice.tokens > 0.0))
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "how long is the run?",
                             .hint = "give either --days or --tokens"});
  ScenarioChoice chosen = choice.scenario;
  if (!choice.preset.empty())
    chosen.sets.insert(chosen.sets.begin(), "reliability.preset=" + choice.preset);
  const Scenario scenario = read(chosen);
  Memo memo;
  const Job job = job_of(scenario, memo);
  const Goodput result = sampled(scenario, job, choice);
  GoodputReport report{.title = scenario.description.empty() ? scenario.file : scenario.description,
                       .job = job,
                       .result = result,
                       .length = length_of(choice, job)};
  if (choice.price > 0.0) report.price_per_gpu_hour = choice.price;
  if (!choice.json.empty()) write_file(choice.json, to_text(goodput_json(report)));
  if (!choice.csv.empty()) write_file(choice.csv, goodput_csv(report));
  say("{}", goodput_text(report));
  return Exit::Fine;
}

}  // namespace

void add_goodput(CLI::App& app, Action& action) {
  auto choice = std::make_shared<GoodputChoice>();
  CLI::App* command = app.add_subcommand(
      "goodput", "Show how failures, checkpoints and restarts lengthen a run of weeks");
  add_scenario_options(*command, choice->scenario);
  command
      ->add_option("--preset", choice->preset,
                   "Failures, checkpoints and recovery: `trainyard list reliability`, or a file")
      ->type_name("NAME");
  command->add_option("--days", choice->days, "Length of the run on the calendar")
      ->type_name("DAYS")
      ->check(in_range(0.001, 36500.0));
  add_tokens_option(*command, choice->tokens, "Tokens to train, such as 15T");
  command
      ->add_option("--runs", choice->runs,
                   "Runs to sample; without it, until the goodput is known to 0.2 %")
      ->type_name("N")
      ->check(in_range(4, 1'000'000));
  command->add_option("--seed", choice->seed, "Of the sampled failures")->type_name("N");
  add_price_option(*command, choice->price, "Of one GPU for an hour: adds the cost of the run");
  add_output_file(*command, "--json", choice->json,
                  "Write summaries, phases, causes and the curve over intervals as JSON");
  add_output_file(*command, "--csv", choice->csv, "Write every sampled run as CSV");
  command->footer(
      "Example:\n"
      "  trainyard goodput scenarios/llama3/llama3_70b_64xh100.json --preset llama3 --days 30 "
      "--runs 200 --set reliability.spares.nodes=1 --set reliability.spares.replace=60s "
      "--price 2.5");
  command->callback([choice, &action] { action = [choice] { return goodput(*choice); }; });
}

}  // namespace trainyard
