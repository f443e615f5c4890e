// `trainyard goodput`: how long a training run of weeks takes with failures, checkpoints and
// restarts, and where its time goes.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/goodput/study.hpp"

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

Scenario read_with(const GoodputChoice& choice, const std::vector<std::string>& changes) {
  ScenarioChoice chosen = choice.scenario;
  if (!choice.preset.empty())
    chosen.sets.insert(chosen.sets.begin(), "reliability.preset=" + choice.preset);
  chosen.sets.insert(chosen.sets.end(), changes.begin(), changes.end());
  return read(chosen);
}

std::vector<NamedScenario> scenarios_of(const GoodputChoice& choice) {
  std::vector<NamedScenario> all{{"as described", read_with(choice, {})}};
  for (const std::string& text : choice.versus) {
    const Versus one = versus_of(text);
    all.push_back({one.name, read_with(choice, one.changes)});
  }
  return all;
}

GoodputStudy sampled(const GoodputChoice& choice) {
  Progress progress("sampling");
  const Interrupt interrupt;
  GoodputQuestion question{.scenarios = scenarios_of(choice),
                           .days = choice.days,
                           .tokens = choice.tokens,
                           .runs = choice.runs,
                           .seed = choice.seed,
                           .progress = [&](double fraction) { progress.show(fraction); },
                           .end = [&] { return interrupt.pending_interrupt(); }};
  if (choice.price > 0.0) question.price_per_gpu_hour = choice.price;
  return goodput_study(question);
}

Exit goodput(const GoodputChoice& choice) {
  refuse_outputs({choice.json, choice.csv, choice.html, choice.trace, choice.events},
                 {choice.scenario.file});
  if (choice.scenario.file.empty())
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "which scenario?",
                             .hint = "give a scenario file, or a run's own log: trainyard goodput "
                                     "fit LOG"});
  const GoodputStudy study = sampled(choice);
  const GoodputReport report = study.report();
  if (!choice.json.empty()) write_file(choice.json, to_text(goodput_json(report)));
  if (!choice.csv.empty()) write_file(choice.csv, goodput_csv(report));
  if (!choice.html.empty()) write_file(choice.html, goodput_page(report, study.events()));
  if (!choice.trace.empty()) write_file(choice.trace, events_trace(study.events()).dump());
  if (!choice.events.empty()) write_file(choice.events, events_csv(study.events()));
  say("{}", goodput_text(report));
  return Exit::Fine;
}

// Where a change ends: at a comma that "PATH=" follows, since JSON values have commas too.
std::size_t end_of_change(const std::string& text, std::size_t at) {
  constexpr const char* kPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  for (std::size_t comma = text.find(',', at); comma != std::string::npos;
       comma = text.find(',', comma + 1)) {
    const std::size_t end = text.find_first_not_of(kPath, comma + 1);
    if (end != std::string::npos && end > comma + 1 && text[end] == '=') return comma;
  }
  return text.size();
}

}  // namespace

Versus versus_of(const std::string& text) {
  const std::size_t colon = text.find(": ");
  const bool named = colon != std::string::npos && colon < text.find('=');
  Versus versus{.name = named ? text.substr(0, colon) : text, .changes = {}};
  for (std::size_t at = named ? colon + 2 : 0; at < text.size();) {
    const std::size_t end = end_of_change(text, at);
    versus.changes.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return versus;
}

void add_goodput(CLI::App& app, Action& action) {
  auto choice = std::make_shared<GoodputChoice>();
  CLI::App* command = app.add_subcommand(
      "goodput", "Show how failures, checkpoints and restarts lengthen a run of weeks");
  add_scenario_options(*command, choice->scenario, false);
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
  add_seed_option(*command, choice->seed, "Of the sampled failures");
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
  // An option of `goodput` in front of `fit` would have no effect, so the two exclude each other.
  const std::vector<CLI::Option*> options = command->get_options();
  add_goodput_fit(*command, action);
  for (CLI::Option* option : options)
    if (option->get_name() != "--help") command->get_subcommand("fit")->excludes(option);
  command->require_subcommand(0, 1);
  command->callback([command, choice, &action] {
    if (command->get_subcommands().empty()) action = [choice] { return goodput(*choice); };
  });
}

}  // namespace trainyard
