// `trainyard run`: simulates one step and reports it.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "scenarios/run/run.hpp"
#include "scenarios/run/workload_question.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/chrome_trace.hpp"
#include "sim/report/csv.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/progress.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

struct RunChoice {
  ScenarioChoice scenario;
  std::string workload;
  std::string cluster;
  std::string engine;
  std::string trace;
  std::vector<RankId> trace_ranks;
  std::string json;
  std::string csv;
  std::string out;
  std::string report = "summary";
  bool no_fold = false;
  bool timing = false;
};

// Where each result goes; nothing where it was not asked for.
struct Outputs {
  std::optional<fs::path> trace, json, csv, scenario;
};

Outputs outputs_of(const RunChoice& choice) {
  Outputs outputs;
  if (!choice.out.empty()) {
    const fs::path folder = choice.out;
    outputs = {.trace = folder / "trace.json.gz", .json = folder / "result.json", .csv = folder / "csv",
               .scenario = folder / "scenario.json"};
  }
  if (!choice.trace.empty()) outputs.trace = choice.trace;
  if (!choice.json.empty()) {
    outputs.json = choice.json;
    outputs.scenario = fs::path(choice.json).replace_extension(".scenario.json");
  }
  if (!choice.csv.empty()) outputs.csv = choice.csv;
  return outputs;
}

Run simulate(const RunChoice& choice) {
  Progress progress("simulating");
  const RunOptions options{.fold = !choice.no_fold, .timing = choice.timing,
                           .progress = [&progress](double fraction) { progress.show(fraction); }};
  if (!choice.workload.empty()) {
    WorkloadQuestion question = read_workload_question(choice.workload, choice.cluster);
    if (!choice.engine.empty()) question.engine = choice.engine;
    return run_workload(std::move(question), options);
  }
  Scenario scenario = read(choice.scenario);
  if (!choice.engine.empty()) scenario.engine = choice.engine;
  return run_scenario(scenario, options);
}

void write_outputs(const Outputs& outputs, const RunChoice& choice, const RunView& view) {
  if (outputs.scenario && !view.facts.scenario.is_null()) {
    write_file(*outputs.scenario, to_text(view.facts.scenario));
    fmt::print("Resolved scenario  {}\n", outputs.scenario->string());
  }
  if (outputs.json) {
    write_file(*outputs.json, to_text(result_json(view)));
    fmt::print("Result             {}\n", outputs.json->string());
  }
  if (outputs.csv) {
    write_csv_directory(view, *outputs.csv);
    fmt::print("Tables             {}\n", outputs.csv->string());
  }
  if (outputs.trace) {
    write_chrome_trace(view, *outputs.trace, {.ranks = choice.trace_ranks});
    fmt::print("Trace              {}   (open it at https://ui.perfetto.dev or in speedscope: drag the file there)\n",
               outputs.trace->string());
  }
}

Exit run(const RunChoice& choice) {
  if (choice.scenario.file.empty() == choice.workload.empty()) {
    throw InputError(Problem{.file = {}, .pointer = {}, .problem = "run takes a scenario or --workload, one of them",
                             .hint = "trainyard run scenarios/first/two_gpus.json"});
  }
  if (choice.workload.empty() != choice.cluster.empty()) {
    throw InputError(Problem{.file = {}, .pointer = {}, .problem = "--workload and --cluster go together",
                             .hint = "`trainyard show topology SCENARIO --json` prints a cluster file"});
  }
  const Run result = simulate(choice);
  const RunView view = result.view();
  const ReportEntry* report = find_report(choice.report);
  fmt::print("{}", report->text(view));
  const Outputs outputs = outputs_of(choice);
  if (outputs.trace || outputs.json || outputs.csv) fmt::print("\n");
  write_outputs(outputs, choice, view);
  return verdict(view);
}

std::vector<std::string> names(auto registry) {
  std::vector<std::string> all;
  for (const auto& entry : registry) all.emplace_back(entry.name);
  return all;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto choice = std::make_shared<RunChoice>();
  CLI::App* command = app.add_subcommand("run", "Simulate one training step and report it");
  add_scenario_options(*command, choice->scenario, false);
  command->add_option("--workload", choice->workload, "Replay a workload graph from a file instead (see `show workload --json`)");
  command->add_option("--cluster", choice->cluster, "Where a --workload runs: a file with a cluster object");
  command->add_option("--out", choice->out, "Write scenario, result, tables and trace into this folder");
  command->add_option("--trace", choice->trace, "Write a Chrome trace (.json or .json.gz)");
  command->add_option("--trace-ranks", choice->trace_ranks, "Ranks to show in the trace (default: one for each class)")->delimiter(',');
  command->add_option("--json", choice->json, "Write the result as JSON");
  command->add_option("--csv", choice->csv, "Write tables into this folder");
  command->add_option("--report", choice->report, "What to print (see `trainyard list reports`)")->check(CLI::IsMember(names(reports())));
  command->add_option("--engine", choice->engine, "simgrid (contention) or ideal (without)")->check(CLI::IsMember(names(engines())));
  command->add_flag("--no-fold", choice->no_fold, "Simulate every rank instead of one for each class");
  command->add_flag("--timing", choice->timing, "Put wall time and memory of the simulation into the result");
  command->footer("Example:\n  trainyard run scenarios/megatron/gpt3_175b_64xa100_selective.json --out out\n"
                  "  trainyard run scenarios/llama3/llama3_8b_8xh100.json --set training.recompute=full");
  command->callback([choice, &action] { action = [choice] { return run(*choice); }; });
}

}  // namespace trainyard
