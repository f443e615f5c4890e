// `trainyard sweep`: runs one scenario with many settings, on all cores, and writes JSON Lines,
// tables and plots.
#include <fmt/format.h>

#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/batch/row.hpp"
#include "tools/studies/sweep/grid.hpp"
#include "tools/studies/sweep/rows.hpp"

namespace trainyard {

namespace {

struct SweepChoice {
  std::string scenario;
  std::vector<std::string> sets;
  std::vector<std::string> zip;
  std::string list;
  std::string shard;
  std::string out;
  std::string csv;
  std::string lines, heat_map;
  std::string metric = "step_time_s";
  std::size_t processes = 0;
  bool ideal = false;
};

std::vector<Axis> axes_of(const SweepChoice& choice) {
  std::vector<Axis> axes;
  for (const std::string& set : choice.sets) axes.push_back(axis_of({set}));
  if (!choice.zip.empty()) axes.push_back(axis_of(choice.zip));
  return axes;
}

// Combines each line of --list with each combination of the axes. The ideal override comes first,
// so that other overrides may change it.
std::vector<Variant> variants_of(const SweepChoice& choice, const std::vector<Axis>& axes) {
  std::vector<Variant> combinations = grid(choice.scenario, axes);
  if (choice.ideal)
    for (Variant& one : combinations) one.changes.insert(one.changes.begin(), ideal_override());
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

void simulate(const SweepChoice& choice, const std::vector<Variant>& variants, Journal& journal) {
  Progress progress("sweeping");
  run_batch(variants, {.journal = journal,
                       .processes = choice.processes,
                       .progress =
                           [&](std::size_t done, std::size_t all) {
                             progress.show(static_cast<double>(done) / static_cast<double>(all));
                           },
                       .redone = [&](std::size_t rows) { report_redone(rows, choice.out); }});
}

std::string write_files(const SweepChoice& choice, const std::vector<Axis>& axes,
                        const SweepRows& rows) {
  std::string places;
  const SweepPlot plot{.title = fmt::format("{}: {}", choice.scenario, choice.metric),
                       .axes = axes,
                       .metric = choice.metric};
  const auto put = [&](const char* what, const std::string& file, const std::string& text) {
    write_file(file, text);
    places += fmt::format("{:<10}  {}\n", what, file);
  };
  if (!choice.out.empty()) places += fmt::format("{:<10}  {}\n", "JSON Lines", choice.out);
  if (!choice.csv.empty()) put("CSV", choice.csv, sweep_csv(rows));
  if (!choice.lines.empty()) put("Lines", choice.lines, line_plot(rows, plot));
  if (!choice.heat_map.empty()) put("Heat map", choice.heat_map, heat_map(rows, plot));
  return places.empty() ? places : "\n" + places;
}

// Exit::Fine if any run fits. Otherwise the exit code shows whether any run was simulated at all.
Exit exit_of(const SweepRows& rows) {
  bool ran = false;
  for (const SweepRow& row : rows) {
    if (row.row.is_null()) continue;
    const RunStatus status = row_figures(row.row).status;
    if (status == RunStatus::Fits) return Exit::Fine;
    ran = ran || status == RunStatus::DoesNotFit || status == RunStatus::Deadlock;
  }
  return ran || rows.empty() ? Exit::RunSaysNo : Exit::BadInput;
}

Exit sweep(const SweepChoice& choice) {
  const std::vector<Axis> axes = axes_of(choice);
  std::vector<Variant> variants = variants_of(choice, axes);
  if (!choice.shard.empty()) variants = shard_of(variants, shard_from(choice.shard));
  Journal journal = open_journal(choice.out);
  simulate(choice, variants, journal);
  const SweepRows rows = sweep_rows(variants, journal);
  const std::string places = write_files(choice, axes, rows);
  say("{}{}", sweep_text(rows), places);
  return exit_of(rows);
}

}  // namespace

void add_sweep(CLI::App& app, Action& action) {
  auto choice = std::make_shared<SweepChoice>();
  CLI::App* command = app.add_subcommand("sweep", "Run a scenario for every combination of values");
  command->add_option("scenario", choice->scenario, "Scenario file (see scenarios/)")->required();
  command
      ->add_option("--set", choice->sets,
                   "Values of a field: --set parallelism.tensor=2,4,8 (repeatable: a grid)")
      ->type_name("PATH=VALUE,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--zip", choice->zip,
                   "Fields that change together: --zip parallelism.tensor=4,8 parallelism.data=2,1")
      ->type_name("PATH=VALUE,... ...");
  add_ideal_option(*command, choice->ideal);
  command->add_option("--list", choice->list, "A file with one line of PATH=VALUE ... per run");
  command->add_option("--out", choice->out,
                      "JSON Lines, one line per run; started again, it goes on where it stopped");
  command->add_option("--shard", choice->shard, "Only the i-th of n parts, i/n, for job arrays");
  command->add_option("--processes", choice->processes, "Runs at a time (default: one per core)");
  command->add_option("--csv", choice->csv, "Write a table with every input and figure");
  command->add_option("--lines", choice->lines, "Write a line plot over the first axis (.svg)");
  command->add_option("--heat-map", choice->heat_map, "Write a heat map over two axes (.svg)");
  command->add_option("--metric", choice->metric, "What the plots show: step_time_s, mfu, ...");
  command->footer(
      "Example:\n"
      "  trainyard sweep scenarios/llama3/llama3_8b_8xh100.json --set training.recompute=none,full "
      "--set training.micro_batch_size=1,2 --out out/sweep.jsonl --csv out/sweep.csv "
      "--heat-map out/sweep.svg");
  command->callback([choice, &action] { action = [choice] { return sweep(*choice); }; });
}

}  // namespace trainyard
