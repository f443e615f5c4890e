// `trainyard sweep`: runs one scenario with many settings, on all cores, and writes JSON Lines,
// tables and plots.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/batch/batch.hpp"
#include "tools/studies/batch/row.hpp"
#include "tools/studies/goodput/scenario_job.hpp"
#include "tools/studies/goodput/study.hpp"
#include "tools/studies/sweep/grid.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {

namespace {

struct SweepChoice {
  std::string scenario;
  std::vector<std::string> sets;
  std::vector<std::string> over;
  std::vector<std::string> zip;
  std::string list;
  std::string shard;
  std::string journal;
  std::string csv, html;
  std::string lines, heat_map;
  std::string metric = "step_time_s";
  std::size_t processes = 0;
  double days = 0.0;
  bool ideal = false;
};

// The changes of every run: --ideal, so that the others may change it, then --set.
std::vector<Override> common_changes(const SweepChoice& choice) {
  std::vector<Override> changes;
  if (choice.ideal) changes.push_back(ideal_override());
  for (const std::string& set : choice.sets) {
    if (std::count(set.begin(), set.end(), ',') > 0 && set.find_first_of("[{\"") == set.npos) {
      throw InputError(Problem{.file = "--set",
                               .pointer = {},
                               .problem = "\"" + set + "\" has several values",
                               .hint = "--set gives a field one value in all runs; --over tries "
                                       "several: --over " +
                                       set});
    }
    changes.push_back(override_of(set));
  }
  return changes;
}

// Combines each line of --list with each combination of the axes. Where two changes name one path,
// the later one counts: a line, then --ideal and --set, then the axes.
std::vector<Variant> variants_of(const SweepChoice& choice, const std::vector<Axis>& axes) {
  std::vector<Variant> combinations = grid(choice.scenario, axes);
  const std::vector<Override> common = common_changes(choice);
  for (Variant& one : combinations)
    one.changes.insert(one.changes.begin(), common.begin(), common.end());
  if (choice.list.empty()) return combinations;
  std::vector<Variant> all;
  for (const Variant& line :
       listed(choice.scenario, choice.list, as_utf8(read_file(choice.list)))) {
    for (const Variant& combination : combinations) {
      Variant& next = all.emplace_back(line);
      next.changes.insert(next.changes.end(), combination.changes.begin(),
                          combination.changes.end());
    }
  }
  return all;
}

[[noreturn]] void refuse_metric(const std::string& metric, const std::vector<std::string>& known) {
  throw InputError(Problem{.file = "--metric",
                           .pointer = {},
                           .problem = fmt::format("no run has the figure \"{}\"", metric),
                           .hint = suggestion(metric, known)});
}

// Refuses a metric that no run has, by the row of any run. Every result has the figures whose path
// is one word, but for two of steps that are played several times; the others depend on the
// scenario, and refuse_absent_metric() finds them after the runs.
void refuse_unknown_metric(const std::string& metric, const nlohmann::ordered_json& row) {
  const nlohmann::ordered_json& result = row.at("result");
  std::vector<std::string> known{"peak_bytes", "steps", "all_steps_time_s"};
  if (!result.is_object() || metric.find('.') != std::string::npos) return;
  for (const auto& [path, value] : result.items())
    if (path.find('.') == std::string::npos && (value.is_number() || value.is_null()))
      known.push_back(path);
  if (std::ranges::find(known, metric) == known.end()) refuse_metric(metric, known);
}

// Refuses a metric that none of the results has, where there are any.
void refuse_absent_metric(const std::string& metric, const SweepRows& rows) {
  std::vector<std::string> known;
  for (const SweepRow& row : rows) {
    if (row.row.is_null() || !row.row.at("result").is_object()) continue;
    const nlohmann::ordered_json& result = row.row.at("result");
    if (result.contains(metric) || row_number(row.row, metric)) return;
    for (const auto& [path, value] : result.items()) known.push_back(path);
  }
  if (!known.empty()) refuse_metric(metric, known);
}

// Returns false if Ctrl-C ended the sweep.
bool simulate(const SweepChoice& choice, const std::vector<Variant>& variants, Journal& journal) {
  Progress progress("sweeping");
  const Interrupt interrupt;
  run_batch(variants, {.journal = journal,
                       .processes = choice.processes,
                       .progress =
                           [&](std::size_t done, std::size_t all) {
                             refuse_unknown_metric(choice.metric, journal.rows().back());
                             progress.show(static_cast<double>(done) / static_cast<double>(all));
                           },
                       .end = [&] { return interrupt.pending_interrupt(); },
                       .redone = [&](std::size_t rows) { report_redone(rows, choice.journal); }});
  return !interrupt.pending_interrupt();
}

// Refuses --days before the runs where no run says what fails. A run that cannot be loaded is
// refused with the others.
void refuse_days_without_failures(const std::vector<Variant>& variants) {
  std::optional<Scenario> without;
  for (const Variant& variant : variants) {
    try {
      Scenario scenario = load_variant(variant);
      if (scenario.reliability) return;
      without = std::move(scenario);
    } catch (const InputError&) {
      continue;
    }
  }
  if (without) refuse_without_reliability(*without);
}

// Adds to each run that fits what its job trains in so many days, all on the same failures. A run
// that goodput refuses becomes a refused one, and the others keep their figures.
void add_goodput(double days, SweepRows& rows) {
  std::vector<NamedScenario> variants;
  std::vector<SweepRow*> asked;
  for (SweepRow& row : rows) {
    if (row.row.is_null() || row_figures(row.row).status != RunStatus::Fits) continue;
    asked.push_back(&row);
    variants.push_back({fmt::format("run {}", asked.size()), load_variant(row.variant)});
  }
  const std::vector<VariantGoodput> all = goodput_of_variants(variants, days);
  for (std::size_t i = 0; i < all.size(); ++i) {
    nlohmann::ordered_json& row = asked[i]->row;
    if (all[i].refused.empty()) {
      row["result"]["goodput.mean"] = all[i].figures.goodput.mean;
      row["result"]["goodput.half_width"] = all[i].figures.goodput.half_width;
      row["result"]["goodput.tokens_per_gpu_hour"] = all[i].figures.tokens_per_gpu_hour;
    } else {
      row["status"] = word_for(kRunStatus, RunStatus::Refused);
      row["message"] = all[i].refused;
      row["result"] = nullptr;
    }
  }
}

// Prints how many rows Ctrl-C left, and how to go on.
void report_interrupted(const SweepChoice& choice, const SweepRows& rows) {
  const auto done = std::count_if(rows.begin(), rows.end(),
                                  [](const SweepRow& row) { return !row.row.is_null(); });
  tell(fmt::format("trainyard: interrupted after {} of {} runs; {}\n", done, rows.size(),
                   choice.journal.empty()
                       ? "with --journal FILE the next sweep would go on from there"
                       : "the same command goes on from there (" + choice.journal + ")"));
}

std::string write_files(const SweepChoice& choice, const std::vector<Axis>& axes,
                        const SweepRows& rows) {
  std::string places;
  const SweepPlot plot{.title = fmt::format("{}: {}", choice.scenario, choice.metric),
                       .axes = axes,
                       .metric = choice.metric,
                       .common = common_changes(choice).size()};
  const auto put = [&](const char* what, const std::string& file, const std::string& text) {
    write_file(file, text);
    places += fmt::format("{:<10}  {}\n", what, file);
  };
  if (!choice.journal.empty()) places += fmt::format("{:<10}  {}\n", "Journal", choice.journal);
  if (!choice.csv.empty()) put("CSV", choice.csv, sweep_csv(rows));
  refuse_absent_metric(choice.metric, rows);
  if (!choice.html.empty()) put("Page", choice.html, sweep_page(rows, choice.metric));
  if (!choice.lines.empty()) put("Lines", choice.lines, line_plot(rows, plot));
  if (!choice.heat_map.empty()) put("Heat map", choice.heat_map, heat_map(rows, plot));
  return places.empty() ? places : "\n" + places;
}

// Prints the table and the places of the files. Of a plot that cannot be drawn the runs are known
// all the same.
void report(const SweepChoice& choice, const std::vector<Axis>& axes, const SweepRows& rows) {
  std::string places;
  try {
    places = write_files(choice, axes, rows);
  } catch (const InputError&) {
    say("{}", sweep_text(rows));
    throw;
  }
  say("{}{}", sweep_text(rows), places);
}

// Exit::BadInput if any run was refused or crashed, else Exit::Fine if any run fits, or if a shard
// has no run.
Exit exit_of(const SweepRows& rows) {
  bool fits = rows.empty();
  for (const SweepRow& row : rows) {
    if (row.row.is_null()) continue;
    const RunStatus status = row_figures(row.row).status;
    if (status == RunStatus::Refused || status == RunStatus::Crashed) return Exit::BadInput;
    fits = fits || status == RunStatus::Fits;
  }
  return fits ? Exit::Fine : Exit::RunSaysNo;
}

Exit sweep(const SweepChoice& choice) {
  if (!choice.list.empty() && !(choice.lines.empty() && choice.heat_map.empty()))
    throw InputError(Problem{.file = "--list",
                             .pointer = {},
                             .problem = "has a run of every combination in each of its lines, and "
                                        "--lines and --heat-map have room for one",
                             .hint = "use --html, which plots every field that varies, or --set "
                                     "in place of --list"});
  refuse_outputs({choice.csv, choice.html, choice.lines, choice.heat_map, choice.journal},
                 {choice.scenario});
  const std::vector<Axis> axes = axes_of(choice.over, choice.zip, choice.sets);
  std::vector<Variant> variants = variants_of(choice, axes);
  if (!choice.shard.empty()) variants = shard_of(variants, shard_from(choice.shard));
  // Refuses axes that no heat map can show, before the runs.
  if (!choice.heat_map.empty()) (void)heat_map_axes(axes);
  if (choice.days > 0.0) refuse_days_without_failures(variants);
  Journal journal = open_journal(choice.journal);
  const bool complete = simulate(choice, variants, journal);
  SweepRows rows = sweep_rows(variants, journal);
  if (complete && choice.days > 0.0) add_goodput(choice.days, rows);
  if (!complete) {
    say("{}", sweep_text(rows));
    report_interrupted(choice, rows);
    return Exit::Interrupted;
  }
  report(choice, axes, rows);
  return exit_of(rows);
}

}  // namespace

void add_sweep(CLI::App& app, Action& action) {
  auto choice = std::make_shared<SweepChoice>();
  CLI::App* command = app.add_subcommand("sweep", "Run a scenario for every combination of values");
  command->add_option("scenario", choice->scenario, "Scenario file (see scenarios/)")
      ->required()
      ->type_name("FILE");
  add_set_option(*command, choice->sets);
  command
      ->add_option("--over", choice->over,
                   "Values to try of a field: --over parallelism.tensor=2,4,8 (repeatable: a grid)")
      ->type_name("PATH=VALUE,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--zip", choice->zip,
                   "Fields that change together: --zip parallelism.tensor=4,8 parallelism.data=2,1")
      ->type_name("PATH=VALUE,...");
  add_ideal_option(*command, choice->ideal);
  command->add_option("--list", choice->list, "A file with one line of PATH=VALUE ... per run")
      ->type_name("FILE");
  add_journal_option(*command, choice->journal);
  command->add_option("--shard", choice->shard, "Only the i-th of n parts, for job arrays")
      ->type_name("I/N");
  add_processes_option(*command, choice->processes);
  command
      ->add_option("--days", choice->days,
                   "Adds the goodput of so many days with the failures of the block reliability "
                   "(--metric goodput.mean)")
      ->type_name("DAYS")
      ->check(in_range(0.01, 36'525.0));
  add_output_file(*command, "--csv", choice->csv, "Write every input and figure as CSV");
  add_output_file(*command, "--html", choice->html,
                  "Write a page: the metric over the fields, and all runs as a table");
  add_output_file(*command, "--lines", choice->lines,
                  "Write a line plot over the first axis as SVG");
  add_output_file(*command, "--heat-map", choice->heat_map,
                  "Write a heat map over the two axes as SVG");
  command->add_option("--metric", choice->metric, "What plots and page show: step_time_s, mfu, ...")
      ->type_name("NAME");
  command->footer(
      "Example:\n"
      "  trainyard sweep scenarios/llama3/llama3_8b_8xh100.json --over "
      "training.recompute=none,full "
      "--over training.micro_batch_size=1,2 --journal out/sweep.jsonl --csv out/sweep.csv "
      "--heat-map out/sweep.svg");
  command->callback([choice, &action] { action = [choice] { return sweep(*choice); }; });
}

}  // namespace trainyard
