// `trainyard goodput fit`: failure rates, recovery and goodput of a run's own log, when the run
// will be finished, and what other policies would have saved.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/reader/reliability.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/run_log/fit_report.hpp"
#include "tools/studies/run_log/log_job.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

namespace {

struct FitChoice {
  std::string log, json, output;
  FitPrior prior;
  std::vector<std::string> sets;
  std::vector<std::string> versus;
  std::int64_t nodes = 0, gpus_per_node = 0;
  double tokens = 0.0, steps = 0.0;
  std::size_t runs = 400;
  std::uint64_t seed = 0;
  bool replay = false;
};

[[noreturn]] void refuse_forecast(const RunLog& log, std::string problem, std::string hint) {
  throw InputError(Problem{
      .file = log.file, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

// A shipped log is found from every folder.
std::string log_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  const auto shipped = find_in_data(path);
  return shipped ? shipped->string() : path;
}

RunLog log_of(const FitChoice& choice) {
  RunLog log = read_run_log(log_file(choice.log));
  if (choice.nodes > 0) log.nodes = choice.nodes;
  if (choice.gpus_per_node > 0) log.gpus_per_node = choice.gpus_per_node;
  return log;
}

// Steps from the end of the log to the target.
double steps_left(const FitChoice& choice, const RunLog& log, const LogFit& fit) {
  if (choice.tokens > 0.0 && log.tokens_per_step <= 0.0)
    refuse_forecast(log, "does not tell the tokens of a step",
                    "write the line \"# tokens_per_step: 4194304\" into a CSV, or give --steps");
  const double all =
      choice.tokens > 0.0 ? std::ceil(choice.tokens / log.tokens_per_step) : choice.steps;
  if (all <= fit.split.last_step)
    refuse_forecast(
        log, fmt::format("ends at step {:.0f}, and the target is {:.0f}", fit.split.last_step, all),
        "give the steps or tokens of the whole run, those of the log included");
  return all - fit.split.last_step;
}

std::vector<Override> changes_of(const std::vector<std::string>& texts) {
  std::vector<Override> changes;
  for (const std::string& text : texts) changes.push_back(override_of(text));
  return changes;
}

Replay replay_of(const FitChoice& choice, const RunLog& log, const LogFit& fit,
                 const Reliability& fitted) {
  const auto traced = [&](const std::vector<std::string>& changes) {
    const Reliability changed = with_changes(log, fitted, changes_of(changes));
    return with_trace(log, fit, job_of_log(log, fit, changed));
  };
  std::vector<ReplayVariant> variants;
  for (const std::string& text : choice.versus) {
    const Versus one = versus_of(text);
    std::vector<std::string> changes = choice.sets;
    changes.insert(changes.end(), one.changes.begin(), one.changes.end());
    variants.push_back({one.name, traced(changes)});
  }
  // The original has the changes of --set too, so that a variant differs from it by its own changes
  // alone.
  return replay_run(traced(choice.sets), variants,
                    {.steps = fit.split.steps_kept,
                     .productive_s = fit.split.phase(RunPhase::Productive),
                     .seed = choice.seed});
}

void check_choice(const FitChoice& choice) {
  refuse_outputs({choice.json, choice.output}, {choice.log});
  if (choice.tokens > 0.0 && choice.steps > 0.0)
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "--tokens and --steps are both given",
                             .hint = "give the target in one of them"});
  if (!choice.versus.empty() && !choice.replay)
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "--versus is a variant of the replay",
                             .hint = "add --replay"});
}

Exit fit(const FitChoice& choice) {
  check_choice(choice);
  const RunLog log = log_of(choice);
  const LogFit fitted = fit_log(log, choice.prior);
  const Reliability reliability = fitted_reliability(log, fitted);
  FitReport report{.log = log, .fit = fitted, .prior = choice.prior};
  if (choice.tokens > 0.0 || choice.steps > 0.0) {
    const Reliability changed = with_changes(log, reliability, changes_of(choice.sets));
    const Job job = job_of_log(log, fitted, changed);
    Progress progress("sampling");
    report.forecast = forecast_run(fitted, job,
                                   {.steps = steps_left(choice, log, fitted),
                                    .runs = choice.runs,
                                    .seed = choice.seed,
                                    .progress = [&](double fraction) { progress.show(fraction); }});
  }
  if (choice.replay) report.replay = replay_of(choice, log, fitted, reliability);
  if (!choice.output.empty()) write_file(choice.output, to_text(reliability_json(reliability)));
  if (!choice.json.empty()) write_file(choice.json, to_text(fit_json(report)));
  say("{}", fit_text(report));
  return Exit::Fine;
}

void add_prior_options(CLI::App& command, FitPrior& prior) {
  command
      .add_option("--prior", prior.preset,
                  "Failure rates to begin with (`trainyard list reliability`, or a file); without "
                  "it Jeffreys' prior")
      ->type_name("NAME");
  command
      .add_option("--prior-events", prior.events,
                  "Failures that the prior counts for (default: 10)")
      ->type_name("N")
      ->check(in_range(0.001, 1e6));
}

void add_target_options(CLI::App& command, FitChoice& choice) {
  add_tokens_option(command, choice.tokens, "Tokens of the whole run: forecasts when it is done");
  command.add_option("--steps", choice.steps, "Steps of the whole run: forecasts when it is done")
      ->type_name("N")
      ->check(in_range(1.0, 1e12));
  command.add_option("--runs", choice.runs, "Runs to sample for the forecast (default: 400)")
      ->type_name("N")
      ->check(in_range(10, 1'000'000));
  add_seed_option(command, choice.seed, "Of the sampled runs");
}

void add_replay_options(CLI::App& command, FitChoice& choice) {
  command.add_flag("--replay", choice.replay, "Let the failures of the log come again");
  command
      .add_option(
          "--versus", choice.versus,
          "Replay with changes too: --versus 'spares: reliability.spares.nodes=8' (repeatable)")
      ->type_name("NAME:PATH=VALUE")
      ->take_all();
  command
      .add_option("--set", choice.sets,
                  "Change the fitted block for forecast and replay: --set "
                  "reliability.spares.repair=24h (repeatable)")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

void add_goodput_fit(CLI::App& goodput, Action& action) {
  auto choice = std::make_shared<FitChoice>();
  CLI::App* command = goodput.add_subcommand(
      "fit", "Fit failures and recovery to a run's own log, and forecast when it is done");
  command
      ->add_option("log", choice->log,
                   "CSV, ml-goodput-measurement's entries, a log of NVIDIA's resiliency extension, "
                   "or sacct --parsable2")
      ->required()
      ->type_name("FILE");
  add_prior_options(*command, choice->prior);
  command->add_option("--nodes", choice->nodes, "Of the job, where the log does not tell")
      ->type_name("N")
      ->check(in_range(1, 1'000'000));
  command->add_option("--gpus-per-node", choice->gpus_per_node, "For the rates of a prior")
      ->type_name("N")
      ->check(in_range(1, 1024));
  add_target_options(*command, *choice);
  add_replay_options(*command, *choice);
  add_output_file(*command, "-o,--output", choice->output,
                  "Write the fit as a file for goodput --preset");
  add_output_file(*command, "--json", choice->json, "Write all tables as JSON");
  command->footer(
      "Example:\n"
      "  trainyard goodput fit scenarios/run_logs/bloom_176b.csv --steps 115000 --replay "
      "--versus reliability.checkpoint.interval_steps=50");
  command->callback([choice, &action] { action = [choice] { return fit(*choice); }; });
}

}  // namespace trainyard
