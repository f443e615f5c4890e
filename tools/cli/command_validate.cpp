// `trainyard validate`: predicts measured runs and reports the errors of the predictions.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/version.hpp"
#include "tools/studies/validate/collective_rows.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/goodput/published.hpp"
#include "tools/studies/validate/interval_coverage.hpp"
#include "tools/studies/validate/interval_fit.hpp"
#include "tools/studies/validate/memory_rows.hpp"
#include "tools/studies/validate/report.hpp"
#include "tools/studies/validate/step_diff.hpp"
#include "tools/studies/validate/step_profile.hpp"
#include "tools/studies/validate/validation.hpp"

namespace trainyard {

namespace {

struct ValidateChoice {
  std::vector<std::string> datasets;
  std::vector<std::string> groups;
  std::vector<std::string> only;
  bool all = false;
  bool markdown = false;
  bool left_out = false;
  std::size_t worst = ReportChoice{}.worst;
  std::size_t processes = 0;
  std::string csv, json, svg, intervals, coverage, cache, scenarios;
  std::vector<std::string> against;
  std::vector<std::uint32_t> ranks;
  std::string step_range;

  [[nodiscard]] bool judges_intervals() const { return !intervals.empty() || !coverage.empty(); }
};

bool named(const ValidateChoice& choice, const std::string& id) {
  if (choice.only.empty()) return true;
  return std::any_of(choice.only.begin(), choice.only.end(),
                     [&](const std::string& begin) { return id.starts_with(begin); });
}

bool chosen(const ValidateChoice& choice, const MeasuredRow& row) {
  return (row.complete || choice.all) && named(choice, row.id);
}

// The chosen input: rows of training runs, which are simulated; outcomes of collectives, which are
// predicted while their file is read; and files of measured memory.
struct ChosenRows {
  std::vector<MeasuredRow> runs;
  std::vector<Outcome> collectives;
  std::vector<std::string> memory;
};

// Whether a file describes the machine of a data set. A pattern such as measured/*.json matches
// such files, too.
bool is_machine(const std::string& file) { return file.ends_with(".machine.json"); }

ChosenRows chosen_rows(const ValidateChoice& choice) {
  ChosenRows rows;
  const bool only_machines = std::ranges::all_of(choice.datasets, is_machine);
  for (const std::string& file : choice.datasets) {
    if (is_machine(file) && !only_machines) continue;
    // The content of a file decides its kind.
    if (is_collective_dataset(file)) {
      for (Outcome& outcome : validate_collectives(file)) {
        if (chosen(choice, outcome.row)) rows.collectives.push_back(std::move(outcome));
      }
      continue;
    }
    if (is_memory_dataset(file)) {
      rows.memory.push_back(file);
      continue;
    }
    for (MeasuredRow& row : read_dataset(file)) {
      if (chosen(choice, row)) rows.runs.push_back(std::move(row));
    }
  }
  if (!rows.runs.empty() || !rows.collectives.empty() || !rows.memory.empty()) return rows;
  throw InputError(Problem{"", "", "no row of the data sets is chosen",
                           "widen --only, or take incomplete rows too with --all"});
}

ReportChoice report_choice(const ValidateChoice& choice, bool collectives_only) {
  ReportChoice report{.worst = choice.worst,
                      .program = version_text(),
                      .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))};
  if (collectives_only) {
    report.groups = {Feature::Source, Feature::Gpu, Feature::Operation, Feature::Size,
                     Feature::Scale};
  }
  if (!choice.groups.empty()) {
    report.groups.clear();
    for (const std::string& name : choice.groups)
      report.groups.push_back(feature_named("--group-by", name));
  }
  return report;
}

// Writes the deviations behind intervals with the command that fitted them.
void write_intervals(const ValidateChoice& choice, const ReportChoice& report,
                     const std::vector<ErrorOfRun>& runs) {
  std::string command = "trainyard validate";
  for (const std::filesystem::path file : choice.datasets)
    command += " " + file.filename().string();
  if (choice.all) command += " --all";
  if (!choice.only.empty()) command += fmt::format(" --only {}", fmt::join(choice.only, ","));
  const std::string source =
      fmt::format("{} --left-out --intervals FILE, {}, {}", command, report.program, report.date);
  write_file(choice.intervals, to_text(uncertainty_json(fit_uncertainty(runs), source), 1));
}

void write_files(const ValidateChoice& choice, const ReportChoice& report,
                 const std::vector<Outcome>& outcomes, const std::vector<MemoryOutcome>& memory) {
  if (!choice.csv.empty()) write_file(choice.csv, validation_csv(outcomes, memory));
  if (!choice.svg.empty()) write_file(choice.svg, scatter_svg(outcomes));
  if (choice.json.empty()) return;
  nlohmann::ordered_json json = validation_json(outcomes, report);
  if (!memory.empty()) json["memory"] = memory_rows_json(memory);
  write_file(choice.json, to_text(json));
}

// Fits intervals to the errors of the runs and writes what was asked for. Returns the text that
// says how many runs are within the intervals of others.
std::string judge_intervals(const ValidateChoice& choice, const ReportChoice& report,
                            const std::vector<Outcome>& shipped) {
  const std::vector<ErrorOfRun> runs =
      errors_of_runs(shipped, report.left_out.at(0).outcomes, report.left_out.at(1).outcomes);
  if (!choice.intervals.empty()) write_intervals(choice, report, runs);
  const std::vector<LeftOutClasses> classes = leave_out_classes(runs);
  if (!choice.coverage.empty()) write_file(choice.coverage, coverage_svg(classes));
  return "Measured runs within intervals of 90 % whose deviations no run of their class fitted\n" +
         coverage_table(classes).text();
}

// Refuses intervals of rows that cannot be fitted, before anything is simulated.
void refuse_few_runs(const ValidateChoice& choice, const ChosenRows& rows) {
  if (!choice.judges_intervals()) return;
  if (rows.runs.empty() || !choice.left_out)
    throw InputError(Problem{"", "", "intervals are fitted to training runs with --left-out",
                             "give such rows and --left-out too"});
  if (rows.runs.size() < kIntervalRunsLeast)
    throw InputError(
        Problem{"", "", fmt::format("{} runs do not determine intervals", rows.runs.size()),
                fmt::format("give data sets with {} runs or more", kIntervalRunsLeast)});
}

// Paths that cannot be written are refused first, because a validation may take long.
Exit validate_rows(const ValidateChoice& choice) {
  refuse_outputs({choice.csv, choice.json, choice.svg, choice.intervals, choice.coverage},
                 {choice.datasets.begin(), choice.datasets.end()});
  const ChosenRows rows = chosen_rows(choice);
  refuse_few_runs(choice, rows);
  ReportChoice report = report_choice(choice, rows.runs.empty());
  Progress progress("validating");
  const ValidateOptions options{.processes = choice.processes,
                                .cache = choice.cache,
                                .scenarios = choice.scenarios,
                                .progress = [&](double fraction) { progress.show(fraction); }};
  std::vector<Outcome> outcomes = rows.collectives;
  std::vector<Outcome> simulated;
  if (!rows.runs.empty()) {
    simulated = validate(rows.runs, options);
    outcomes.insert(outcomes.end(), simulated.begin(), simulated.end());
    if (choice.left_out) {
      for (const Feature feature : {Feature::Source, Feature::Gpu})
        report.left_out.push_back({feature, validate_left_out(rows.runs, options, feature)});
    }
  }
  std::vector<MemoryOutcome> memory;
  for (const std::string& file : rows.memory) {
    const auto wanted = [&](const std::string& id) { return named(choice, id); };
    const std::vector<MemoryOutcome> found = validate_memory(file, wanted, options);
    memory.insert(memory.end(), found.begin(), found.end());
  }
  const std::string intervals =
      choice.judges_intervals() ? judge_intervals(choice, report, simulated) : "";
  write_files(choice, report, outcomes, memory);
  if (!outcomes.empty())
    say("{}", choice.markdown ? validation_markdown(outcomes, report)
                              : validation_text(outcomes, report));
  if (!memory.empty()) say("{}", memory_rows_text(memory));
  if (!intervals.empty()) say("{}", intervals);
  const bool any = !memory.empty() || std::ranges::any_of(outcomes, &Outcome::predicted);
  return any ? Exit::Fine : Exit::RunSaysNo;
}

// Predicts the goodput of published runs of weeks.
Exit validate_weeks(const ValidateChoice& choice) {
  if (choice.datasets.size() != 1)
    throw InputError(Problem{"", "", "rows of whole runs are validated alone",
                             "name the other data sets in a command of their own"});
  refuse_unwritable(choice.json);
  const auto wanted = [&](const std::string& id) { return named(choice, id); };
  const GoodputRows rows = validate_goodput(choice.datasets.front(), wanted);
  if (!choice.json.empty()) write_file(choice.json, to_text(goodput_rows_json(rows)));
  say("{}", goodput_rows_text(rows));
  return rows.empty() ? Exit::RunSaysNo : Exit::Fine;
}

// Compares the prediction of a scenario with a user's own traces.
Exit compare_with_traces(const ValidateChoice& choice) {
  if (choice.datasets.size() != 1) {
    throw InputError(Problem{"--against", "", "needs one scenario to predict",
                             "trainyard validate SCENARIO --against trace.json"});
  }
  refuse_unwritable(choice.json);
  std::vector<StepProfile> measured = measured_steps(
      {.files = choice.against, .ranks = choice.ranks, .step_range = choice.step_range});
  const Scenario scenario = load_scenario(choice.datasets.front(), {});
  const Result run = simulate(scenario, {});
  const std::vector<StepDiff> ranks = step_diffs(run, std::move(measured));
  if (!choice.json.empty()) write_file(choice.json, to_text(diff_json(ranks), 1));
  say("{}", diff_text(ranks, run.cluster->facts().gpu));
  return Exit::Fine;
}

// The options of a comparison with traces.
void add_trace_options(CLI::App& command, ValidateChoice& choice) {
  command
      .add_option("--against", choice.against,
                  "Compare one scenario, given instead of data sets, with this trace of "
                  "torch.profiler (.json, .json.gz), SQLite export of Nsight Systems or list "
                  "of step times, by kind of operation (repeatable, a trace a rank)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--rank", choice.ranks,
                  "--against: whose trace it is (default: the rank that the trace names, else 0; "
                  "repeatable, in the order of the traces)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--step-range", choice.step_range,
                     "--against: what the names of NVTX ranges begin with that mark a step "
                     "(default: ProfilerStep#, or a number after step or iteration)");
}

void add_output_options(CLI::App& command, ValidateChoice& choice) {
  command.add_option("--csv", choice.csv, "Write one line a row");
  command.add_option("--json", choice.json,
                     "Write scores and rows as JSON; with --against, the differences");
  command.add_option("--svg", choice.svg, "Write predicted over measured as a picture");
  command.add_option(
      "--intervals", choice.intervals,
      "Fit the deviations behind the intervals that `trainyard run` prints to "
      "these runs, and write them (models/uncertainty/steps.json); needs --left-out");
  command.add_option(
      "--coverage", choice.coverage,
      "Write how many runs are within such intervals as a picture; needs --left-out");
  command.add_option("--scenarios", choice.scenarios, "Write each row's scenario into this folder");
  command.add_option("--cache", choice.cache,
                     "Keep answers in this file (JSON Lines); what is in it and still holds is "
                     "not simulated again");
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ValidateChoice>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "Predict measured runs of training, collectives or memory, and say how far off that is");
  command
      ->add_option("datasets", choice->datasets,
                   "Files of measured rows (see tools/studies/validate/README.md)")
      ->required();
  command
      ->add_option(
          "--group-by", choice->groups,
          "Scores by source, gpu, parallelism, precision, scale, framework, model, "
          "recompute, operation, size, group, replica, family, release (default: the first "
          "five; of collectives source, "
          "gpu, operation, size, scale)")
      ->delimiter(',');
  command->add_option("--only", choice->only, "Rows whose id begins so (repeatable)")
      ->delimiter(',');
  command->add_flag("--all", choice->all,
                    "Also rows that are marked as not complete: something about them is not known");
  command->add_flag(
      "--left-out", choice->left_out,
      "Also score each source predicted without what its own rows fitted, and each GPU "
      "without its tables of kernels (tools/studies/validate/data/left_out.json)");
  command->add_flag("--markdown", choice->markdown, "Print the tables as Markdown");
  command->add_option("--worst", choice->worst, "Rows named one by one")->capture_default_str();
  add_trace_options(*command, *choice);
  add_output_options(*command, *choice);
  add_processes_option(*command, choice->processes);
  command->footer(
      "Example:\n  trainyard validate tests/measured/published_runs.json --group-by gpu,scale\n"
      "  trainyard validate scenario.json --against trace.json.gz --rank 3\n"
      "  trainyard validate my_runs.json --scenarios made --svg scatter.svg --cache answers.jsonl\n"
      "  trainyard validate MEASURED/collectives/h100_sxm.csv MEASURED/memory.json\n"
      "MEASURED stands for your folder of measurements.");
  command->callback([choice, &action] {
    action = [choice] {
      if (!choice->against.empty()) return compare_with_traces(*choice);
      const bool weeks = std::ranges::any_of(choice->datasets, is_goodput_dataset);
      return weeks ? validate_weeks(*choice) : validate_rows(*choice);
    };
  });
}

}  // namespace trainyard
