// `trainyard run`: simulates one training step and reports it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/bench/shapes_file.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/data_use.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/render/text_table.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/run_model.hpp"
#include "tools/studies/memory/ways_to_fit.hpp"
#include "tools/studies/seeds/over_batches.hpp"

namespace trainyard {

namespace {

std::optional<RankId> rank_of(std::string_view text) {
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return RankId{rank};
}

// The ranks that a trace shows, from the comma-separated words of "0,8-15" or "all". Throws
// InputError for a word that is neither a rank, a range nor "all". The writer of the trace checks
// whether the ranks exist.
TraceOptions trace_options_of(const std::vector<std::string>& words) {
  // A range up to the largest integer would fill the memory before the writer checks its ranks.
  constexpr std::uint32_t kRangeMost = 1 << 20;
  TraceOptions options;
  for (const std::string_view word : words) {
    if (word == "all") {
      options.all_ranks = true;
      continue;
    }
    const std::size_t dash = word.find('-');
    const std::optional<RankId> first = rank_of(word.substr(0, dash));
    const std::optional<RankId> last =
        dash == std::string_view::npos ? first : rank_of(word.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > kRangeMost) {
      throw InputError(Problem{.file = {},
                               .pointer = "--trace-ranks",
                               .problem = fmt::format("\"{}\" names no ranks", word),
                               .hint = "write ranks and ranges, as in 0,8-15, or all"});
    }
    for (RankId rank = *first; rank <= *last; ++rank) options.ranks.push_back(rank);
  }
  return options;
}

struct RunChoice {
  ScenarioChoice scenario;
  ModelChoice model;
  std::string workload;
  std::string cluster;
  std::string engine;
  OutputChoice outputs;
  std::vector<std::string> trace_ranks;
  std::string report = "summary";
  std::string missing;
  std::size_t batches = 0;  // 0: one, without a mean
  double tokens = 0.0;      // of the whole training; 0: not given
  double price = 0.0;       // of one GPU for an hour; 0: not given
  bool no_fold = false;
  bool explain_fold = false;
  bool no_contract = false;
  bool timing = false;
  bool explain = false;
  bool no_search = false;
};

// The scenario, with the engine of the command line. A --workload without scenario has no value.
std::optional<Scenario> scenario_of(const RunChoice& choice) {
  if (!choice.workload.empty()) return std::nullopt;
  Scenario scenario = choice.model.model.empty()
                          ? read(choice.scenario)
                          : found_scenario(choice.model, overrides_of(choice.scenario));
  if (!choice.engine.empty()) scenario.engine = choice.engine;
  return scenario;
}

// Runs the scenario, or the workload on its cluster. The fluid solver is loaded while the scenario
// is prepared.
Result simulated(const RunChoice& choice, const std::optional<Scenario>& scenario) {
  Progress progress("simulating");
  SimulateOptions options{.fold = !choice.no_fold,
                          .contract = !choice.no_contract,
                          .fold_reasons = choice.explain_fold,
                          .timing = choice.timing,
                          .progress = [&progress](double fraction) { progress.show(fraction); }};
  if (tells_details()) {
    options.stage = [](const std::string& what, double seconds) {
      tell(fmt::format("trainyard: {} in {:.4f} s\n", what, seconds));
    };
  }
  if (scenario) {
    const FluidSolverAhead ahead(scenario->engine == "simgrid");
    return simulate(*scenario, options);
  }
  WorkloadRun question = choice.cluster.empty()
                             ? read_workload_question(choice.workload, read(choice.scenario))
                             : read_workload_question(choice.workload, choice.cluster);
  if (!choice.engine.empty()) question.engine = choice.engine;
  return simulate(std::move(question), options);
}

// Refuses options that contradict each other, and a command that does not have exactly one input to
// run.
void refuse_contradictions(const RunChoice& choice) {
  const auto fail = [](std::string problem, std::string hint) {
    throw InputError(
        Problem{.file = {}, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
  };
  const bool has_model = !choice.model.model.empty();
  if (choice.price > 0.0 && choice.tokens == 0.0)
    fail("--price is of a training, and its length is not given", "add --tokens 15T");
  if (has_model && !(choice.scenario.file.empty() && choice.workload.empty())) {
    fail("--model stands in place of a scenario or a --workload", "leave one out");
  }
  if (has_model) return;
  if (choice.scenario.file.empty() && choice.workload.empty()) {
    fail("run takes a scenario, a --model, or a --workload and where it runs",
         "trainyard run --model llama3-8b --gpus 8");
  }
  if (choice.workload.empty() && !choice.cluster.empty()) {
    fail("--cluster is where a --workload runs", "a scenario has its own: --set cluster.file=...");
  }
  if (!choice.workload.empty() && choice.scenario.file.empty() == choice.cluster.empty()) {
    fail("--workload takes a --cluster, or a scenario for cluster and software, one of them",
         "`trainyard show topology SCENARIO --format json` prints a cluster file");
  }
  if (choice.scenario.file.empty() && !choice.scenario.sets.empty()) {
    fail("--set changes a scenario, and there is none", "change the workload file");
  }
  if (!choice.workload.empty() && choice.explain) {
    fail("--explain simulates changes to a scenario, and a --workload has none",
         "use --report critical_path");
  }
  if (choice.no_fold && choice.explain_fold) {
    fail("--explain-fold explains classes of ranks, and --no-fold makes none", "leave one out");
  }
  if (!choice.workload.empty() && choice.batches > 0) {
    fail("--batches draws other batches of a scenario, and a --workload has none", "leave one out");
  }
  if (!choice.workload.empty() && choice.tokens > 0.0) {
    fail("--tokens needs the tokens of a step, and a --workload has none", "use a scenario");
  }
  if (!choice.trace_ranks.empty() && choice.outputs.trace.empty() && choice.outputs.out.empty() &&
      choice.outputs.trace_folder.empty() && choice.outputs.chakra.empty()) {
    fail("--trace-ranks needs a trace", "add --trace trace.json.gz");
  }
}

// Writes every kernel shape that was not measured, the largest share of the busy time first.
std::string write_missing(const std::string& file, const RunView& view) {
  const CostSummary costs = cost_summary(view, view.workload.kernels.size());
  std::vector<bench::WantedShape> shapes;
  for (const KernelUse& use : costs.worth_measuring) {
    const Kernel& kernel = view.workload.kernels[use.kernel];
    // a recorded kernel has no shape to measure
    if (std::holds_alternative<Recorded>(kernel)) continue;
    shapes.push_back({kernel, std::string(to_string(use.provenance)), use.share});
  }
  write_file(file, bench::shapes_to_json(shapes, view.cluster.facts().gpu).dump(1) + "\n");
  return fmt::format(
      "Missing  {}   ({} shapes; trainyard profile measure --shapes {} --output F)\n", file,
      shapes.size(), file);
}

// The search simulates about thirty changes. On more GPUs than this it takes many times as long as
// the run itself.
constexpr std::size_t kSearchedGpusMost = 128;

// For a scenario that does not fit: the smallest single change that makes it fit. For a large
// scenario it is the command that searches for this change.
std::string what_would_fit(const RunChoice& choice, const Scenario& scenario,
                           const Result& result) {
  if (result.workload->ranks.size() > kSearchedGpusMost)
    return fmt::format("\n  `trainyard memory {}` looks for the least change that fits.\n",
                       choice.scenario.file);
  Progress progress("looking for what fits");
  std::vector<Override> overrides = overrides_of(choice.scenario);
  if (!choice.engine.empty()) overrides.push_back({"engine", choice.engine});
  const FitSearch search =
      ways_to_fit({.scenario = {choice.scenario.file, std::move(overrides)},
                   .changes_most = 1,
                   .progress = [&](double fraction) { progress.show(fraction); }},
                  scenario, fit_figures(scenario, result));
  return "\n" + wrapped(first_way_line(search) + "; `trainyard memory` says more", 2);
}

// The batches that were asked for; nothing without --batches.
std::optional<BatchTimes> batches_of(const RunChoice& choice,
                                     const std::optional<Scenario>& scenario) {
  if (!scenario || choice.batches == 0) return std::nullopt;
  Progress progress("simulating batches");
  return over_batches(
      *scenario, {.batches = choice.batches, .progress = [&](std::size_t done, std::size_t all) {
                    progress.show(static_cast<double>(done) / static_cast<double>(all));
                  }});
}

Exit run(const RunChoice& choice) {
  refuse_contradictions(choice);
  const TraceOptions trace = trace_options_of(choice.trace_ranks);
  const Outputs outputs = outputs_of(choice.outputs);
  refuse_unwritable(outputs);
  std::vector<std::filesystem::path> files = files_of(outputs);
  files.emplace_back(choice.missing);
  refuse_outputs(files, {choice.scenario.file, choice.workload, choice.cluster});
  const std::optional<Scenario> scenario = scenario_of(choice);
  std::optional<BatchTimes> batches = batches_of(choice, scenario);
  Result result = simulated(choice, scenario);
  result.facts.batches = std::move(batches);
  result.facts.token_budget = choice.tokens;
  if (choice.price > 0.0) {
    result.facts.gpu_hour_price = choice.price;
    result.facts.gpu_hour_price_source.clear();
  }
  const RunView view = result.view();
  const bool explains = choice.explain || (scenario && !choice.outputs.html.empty());
  const Explanation why = explains ? explanation(*scenario, result, 0) : Explanation{};
  // The files are written first: if one cannot be written, nothing is printed that looks like
  // success.
  std::string places = write(outputs, view, trace, why.gains);
  if (!choice.missing.empty()) places += write_missing(choice.missing, view);
  const Exit exit = verdict(view);
  const bool searches = exit != Exit::Fine && scenario && !choice.no_search;
  say("{}{}{}{}{}{}", find_report(choice.report)->text(view),
      choice.explain_fold ? "\n" + fold_section(view) : "", choice.explain ? "\n" + why.text : "",
      searches ? what_would_fit(choice, *scenario, result) : "", places.empty() ? "" : "\n",
      places);
  return exit;
}

std::vector<std::string> names(auto registry) {
  std::vector<std::string> all;
  for (const auto& entry : registry) all.emplace_back(entry.name);
  return all;
}

// Accepts the name of a report, or of a page (.html) to write.
CLI::Validator a_report() {
  const std::vector<std::string> known = names(reports());
  return {[known](const std::string& text) {
            if (text.ends_with(".html") || std::ranges::count(known, text) > 0)
              return std::string();
            return fmt::format("there is no report \"{}\" ({}; a page ends in .html)", text,
                               suggestion(text, known));
          },
          fmt::format("{{{}}}", fmt::join(known, ",")), "report"};
}

void add_run_outputs(CLI::App& command, RunChoice& choice) {
  OutputChoice& outputs = choice.outputs;
  const auto folder = [&](const char* name, std::string& path, const char* help) {
    command.add_option(name, path, help)->type_name("FOLDER");
  };
  folder("--out", outputs.out, "Write scenario, result, tables, page and trace into this folder");
  add_output_file(command, "--json", outputs.json, "Write the result as JSON");
  folder("--tables", outputs.csv, "Write every table as CSV into this folder");
  add_output_file(command, "--html", outputs.html,
                  "Write a page: timeline, memory, links, critical path, what would help");
  add_output_file(command, "--svg", outputs.svg,
                  "Write a chart of what each stage computes over time, as SVG");
  add_output_file(command, "--trace", outputs.trace,
                  "Write a Chrome trace (.json or .json.gz) or, for many ranks, one in Perfetto's "
                  "own format (.pftrace)");
  folder("--trace-dir", outputs.trace_folder, "Write a trace for each rank into this folder");
  folder("--chakra", outputs.chakra,
         "Write Chakra execution traces, one for each rank, into this folder");
  command
      .add_option("--trace-ranks", choice.trace_ranks,
                  "Ranks to show in the trace: 0,8-15 or all (default: one for each class)")
      ->delimiter(',')
      ->type_name("RANKS");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto choice = std::make_shared<RunChoice>();
  CLI::App* command = app.add_subcommand("run", "Simulate one training step and report it");
  add_scenario_options(*command, choice->scenario, false);
  command
      ->add_option(
          "--workload", choice->workload,
          "Replay a workload graph from a file (see `show workload --format json`), on a --cluster "
          "or with a scenario's cluster and software")
      ->type_name("FILE");
  command
      ->add_option("--cluster", choice->cluster,
                   "Where a --workload runs: a file with a cluster object")
      ->type_name("FILE");
  add_model_options(*command, choice->model);
  add_run_outputs(*command, *choice);
  command
      ->add_option("--report", choice->report,
                   "What to print (see `trainyard list reports`); a name in .html is as --html")
      ->check(a_report());
  add_tokens_option(*command, choice->tokens,
                    "Of the whole training, such as 15T: adds days and GPU-hours");
  add_price_option(*command, choice->price, "Of one GPU for an hour: adds the cost of --tokens");
  command
      ->add_option(
          "--batches", choice->batches,
          "Batches to draw, with the seeds from the scenario's on: adds the mean step with "
          "its 95 % interval, and what balancing documents saves")
      ->type_name("N")
      ->check(CLI::Range(2, 10'000));
  add_output_file(*command, "--missing", choice->missing,
                  "Write the shapes nobody measured as JSON, for `profile measure --shapes`");
  command->add_option("--engine", choice->engine, "simgrid (contention) or ideal (without)")
      ->check(CLI::IsMember(names(engines())));
  command->add_flag("--no-fold", choice->no_fold,
                    "Simulate every rank instead of one for each class");
  command->add_flag("--explain-fold", choice->explain_fold,
                    "Add the classes of ranks, their members and why they are not one");
  command->add_flag("--no-contract", choice->no_contract,
                    "Simulate every operation instead of regions that nothing else can hold up");
  command->add_flag("--timing", choice->timing,
                    "Put wall time and memory of the simulation into the result");
  command->add_flag("--explain", choice->explain,
                    "Add the critical path and what would make the step shorter");
  command->add_flag("--no-search", choice->no_search,
                    "Where it does not fit: do not look for a change with which it would");
  command->footer(
      "Example:\n  trainyard run --model llama3-8b --gpus 8 --gpu h100\n"
      "  trainyard run scenarios/megatron/gpt3_175b_64xa100_selective.json --out out\n"
      "  trainyard run scenarios/llama3/llama3_8b_8xh100.json --html report.html\n"
      "  trainyard run scenarios/context/packed_llama3_8b_32xh100.json --batches 10\n"
      "  trainyard run scenarios/llama3/llama3_8b_8xh100.json --set training.recompute=full");
  command->callback([choice, &action] {
    // A report with the name of a page is the option --html together with the usual summary.
    if (choice->report.ends_with(".html")) {
      choice->outputs.html = std::exchange(choice->report, "summary");
    }
    action = [choice] { return run(*choice); };
  });
}

}  // namespace trainyard
