// `trainyard goodput`: how long a training run of weeks takes with failures, checkpoints and
// restarts, and where its time goes.
#include <fmt/format.h>

#include <algorithm>
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
  std::string preset, json, csv, html, trace, events;
  std::vector<std::string> versus;
  double days = 0.0, tokens = 0.0, price = 0.0;
  std::size_t runs = 0;
  std::uint64_t seed = 0;
};

// The length of the run in wall time, or in steps.
RunLength length_of(const GoodputChoice& choice, const Job& job) {
  if (choice.days > 0.0) return {.wall_s = choice.days * kSecondsPerDay};
  return {.steps = std::ceil(choice.tokens / job.tokens_per_step)};
}

GoodputOptions options_of(const Scenario& scenario, const Job& job, const GoodputChoice& choice) {
  return {.file = scenario.file,
          .length = length_of(choice, job),
          .seed = choice.seed,
          .runs = choice.runs};
}

Goodput sampled(const Scenario& scenario, const Job& job, const GoodputChoice& choice) {
  Progress progress("sampling");
  const Interrupt interrupt;
  GoodputOptions options = options_of(scenario, job, choice);
  options.progress = [&](double fraction) { progress.show(fraction); };
  options.end = [&] { return interrupt.pending_interrupt(); };
  return goodput(job, options);
}

Scenario read_with(const GoodputChoice& choice, const std::string& changes) {
  ScenarioChoice chosen = choice.scenario;
  if (!choice.preset.empty())
    chosen.sets.insert(chosen.sets.begin(), "reliability.preset=" + choice.preset);
  for (std::size_t at = 0; at < changes.size();) {
    const std::size_t end = std::min(changes.find(',', at), changes.size());
    chosen.sets.push_back(changes.substr(at, end - at));
    at = end + 1;
  }
  return read(chosen);
}

// "NAME: PATH=VALUE,PATH=VALUE", or the changes alone, which are then the name as well.
struct Versus {
  std::string name;
  std::string changes;
};
Versus versus_of(const std::string& text) {
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos || text.find('=') < colon) return {.name = text, .changes = text};
  return {.name = text.substr(0, colon), .changes = text.substr(colon + 2)};
}

// The job itself, and the others.
std::vector<NamedJob> jobs_of(const GoodputChoice& choice, const Job& job, Memo& memo) {
  if (choice.versus.empty()) return {};
  std::vector<NamedJob> jobs{{"as described", job}};
  for (const std::string& text : choice.versus) {
    const Versus one = versus_of(text);
    jobs.push_back({one.name, job_of(read_with(choice, one.changes), memo)});
    if (jobs.back().job.causes.size() != job.causes.size())
      throw InputError(
          Problem{.file = {},
                  .pointer = {},
                  .problem = fmt::format("--versus {} has other causes of failures", one.name),
                  .hint = "alternatives are compared on the same failures: change "
                          "something else, or run goodput twice"});
  }
  return jobs;
}

void write_outputs(const GoodputChoice& choice, const GoodputReport& report) {
  if (!choice.json.empty()) write_file(choice.json, to_text(goodput_json(report)));
  if (!choice.csv.empty()) write_file(choice.csv, goodput_csv(report));
  if (choice.html.empty() && choice.trace.empty() && choice.events.empty()) return;
  std::vector<RunEvent> events;
  (void)sampled_run(report.job, report.length, choice.seed, 0, &events);
  if (!choice.html.empty()) write_file(choice.html, goodput_page(report, events));
  if (!choice.trace.empty()) write_file(choice.trace, events_trace(events).dump());
  if (!choice.events.empty()) write_file(choice.events, events_csv(events));
}

Exit goodput(const GoodputChoice& choice) {
  for (const std::string* file :
       {&choice.json, &choice.csv, &choice.html, &choice.trace, &choice.events})
    refuse_unwritable(*file);
  if ((choice.days > 0.0) == (choice.tokens > 0.0))
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "how long is the run?",
                             .hint = "give either --days or --tokens"});
  const Scenario scenario = read_with(choice, "");
  Memo memo;
  const Job job = job_of(scenario, memo);
  const std::vector<NamedJob> jobs = jobs_of(choice, job, memo);
  const Goodput result = sampled(scenario, job, choice);
  GoodputReport report{.title = scenario.description.empty() ? scenario.file : scenario.description,
                       .job = job,
                       .result = result,
                       .length = length_of(choice, job)};
  if (choice.price > 0.0) report.price_per_gpu_hour = choice.price;
  if (!jobs.empty())
    report.alternatives = alternatives(jobs, result.runs, options_of(scenario, job, choice));
  write_outputs(choice, report);
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
  add_output_file(*command, "--html", choice->html,
                  "Write a page with charts and the calendar of one run");
  add_output_file(*command, "--trace", choice->trace,
                  "Write one run as a Chrome trace in which a second is a day");
  add_output_file(*command, "--events", choice->events, "Write what happens in one run as CSV");
  command
      ->add_option("--versus", choice->versus,
                   "Compare with the same job changed, on the same failures, such as "
                   "'elastic: reliability.policy=elastic,reliability.spares.nodes=0'")
      ->type_name("NAME:PATH=VALUE")
      ->take_all();
  command->footer(
      "Example:\n"
      "  trainyard goodput scenarios/llama3/llama3_70b_64xh100.json --preset llama3 --days 30 "
      "--runs 200 --set reliability.spares.nodes=1 --set reliability.spares.replace=60s "
      "--price 2.5");
  command->callback([choice, &action] { action = [choice] { return goodput(*choice); }; });
}

}  // namespace trainyard
