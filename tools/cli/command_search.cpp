// `trainyard search`: finds the best layouts of a model on a cluster under the memory limit.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/units.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/goodput/study.hpp"
#include "tools/studies/goodput/tables.hpp"
#include "tools/studies/search/report.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {

namespace {

struct SearchChoice {
  std::string scenario;
  std::vector<std::string> sets, over;
  std::string journal, json, csv, html;
  std::size_t top = 10;
  std::size_t processes = 0;
  double price = 0.0;
  double seconds = 0.0;
  double headroom = 0.0;  // percent
  std::string objective = "time";
  double days = 0.0;
  bool exhaustive = false;
  bool no_refine = false;
  bool ideal = false;
};

// The best layouts by what they train in so many days with the failures of the scenario: the layout
// that is quickest per step need not be the best. Layouts that goodput refuses come last.
std::vector<VariantGoodput> by_goodput(const SearchChoice& choice, const SearchResult& result) {
  if (choice.objective != "goodput") return {};
  std::vector<NamedScenario> variants;
  for (const FoundLayout& found : result.best)
    variants.push_back({layout_name(found.layout), load_variant(found.layout.variant)});
  std::vector<VariantGoodput> all = goodput_of_variants(variants, choice.days);
  std::ranges::stable_sort(all, std::greater<>(), [](const VariantGoodput& one) {
    return one.figures.tokens_per_gpu_hour;
  });
  return all;
}

nlohmann::ordered_json by_goodput_json(const std::vector<VariantGoodput>& all) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const VariantGoodput& one : all)
    if (one.refused.empty())
      json.push_back(alternatives_json({one.figures}).front());
    else
      json.push_back({{"name", one.figures.name}, {"refused", one.refused}});
  return json;
}

std::string by_goodput_text(const std::vector<VariantGoodput>& all) {
  std::vector<Alternative> known;
  std::string refused;
  for (const VariantGoodput& one : all)
    if (one.refused.empty())
      known.push_back(one.figures);
    else
      refused += wrapped(fmt::format("  refused: {}: {}", one.figures.name, one.refused), 4);
  return alternative_table(known).text() + refused;
}

void check_objective(const SearchChoice& choice) {
  if ((choice.objective == "goodput") == (choice.days > 0.0)) return;
  throw InputError(Problem{.file = {},
                           .pointer = {},
                           .problem = choice.days > 0.0 ? "--days without --objective goodput"
                                                        : "for how many days is the goodput?",
                           .hint = "give both --objective goodput and --days, or neither"});
}

// Every override of --set applies to all layouts, and each --over adds an axis to the search.
Exit search_layouts(const SearchChoice& choice) {
  check_objective(choice);
  refuse_outputs({choice.json, choice.csv, choice.html}, {choice.scenario});
  SearchSpace space{.scenario = {.file = choice.scenario}};
  if (choice.ideal) space.scenario.changes.push_back(ideal_override());
  for (const std::string& set : choice.sets) space.scenario.changes.push_back(override_of(set));
  if (choice.price > 0.0) set_price(choice.price, space.scenario);
  space.over = axes_of(choice.over, {}, choice.sets);
  Journal journal = open_journal(choice.journal);
  Progress progress("searching");
  const Interrupt interrupt;
  const SearchResult result = search(
      {.space = std::move(space),
       .journal = journal,
       .top = choice.top,
       .exhaustive = choice.exhaustive,
       .objective = value_of(kSearchObjectives, choice.objective).value_or(SearchObjective::Time),
       .refine = !choice.no_refine,
       .processes = choice.processes,
       .headroom = choice.headroom / 100.0,
       .seconds = choice.seconds,
       .end = [&] { return interrupt.pending_interrupt(); },
       .progress = [&](const std::string&, double fraction) { progress.show(fraction); },
       .better =
           [&](const FoundLayout& found) {
             progress.note(fmt::format("best so far {}: {}",
                                       to_text(Seconds{found.figures.step_time_s}),
                                       layout_name(found.layout)));
           },
       .redone = [&](std::size_t rows) { report_redone(rows, choice.journal); }});
  SearchPrice price;
  if (choice.price > 0.0) price.per_gpu_hour = choice.price;
  const std::vector<VariantGoodput> goodput = by_goodput(choice, result);
  nlohmann::ordered_json json = search_json(result, price);
  if (!goodput.empty()) json["by_goodput"] = by_goodput_json(goodput);
  if (!choice.json.empty()) write_file(choice.json, to_text(json));
  if (!choice.csv.empty()) write_file(choice.csv, search_csv(result, price));
  if (!choice.html.empty()) write_file(choice.html, search_page(result, price, choice.scenario));
  say("{}", search_text(result, price));
  if (!goodput.empty()) say("\n{}", by_goodput_text(goodput));
  if (interrupt.pending_interrupt()) return Exit::Interrupted;
  return result.best.empty() ? Exit::RunSaysNo : Exit::Fine;
}

}  // namespace

void add_search(CLI::App& app, Action& action) {
  auto choice = std::make_shared<SearchChoice>();
  CLI::App* command = app.add_subcommand("search", "Find the best layouts under the memory limit");
  command
      ->add_option("scenario", choice->scenario,
                   "Model, cluster and batch; its sizes are the first guess")
      ->required()
      ->type_name("FILE");
  add_set_option(*command, choice->sets);
  add_ideal_option(*command, choice->ideal);
  command
      ->add_option("--over", choice->over,
                   "Values to try of a field: --over parallelism.tensor=4,8 (repeatable)")
      ->type_name("PATH=VALUE,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--top", choice->top, "How many of the best")
      ->type_name("N")
      ->check(in_range(1, 1000));
  command
      ->add_option(
          "--objective", choice->objective,
          "What orders the best: time of a step; cost or energy, which need the block power and "
          "simulate every layout that may fit; goodput over --days, which needs the block "
          "reliability")
      ->type_name("NAME")
      ->check(CLI::IsMember({"time", "cost", "energy", "goodput"}));
  command->add_option("--days", choice->days, "Length of the run on the calendar")
      ->type_name("DAYS")
      ->check(in_range(0.001, 36500.0));
  add_price_option(*command, choice->price, "Of one GPU for an hour: adds cost per million tokens");
  command
      ->add_option("--seconds", choice->seconds,
                   "Answer after so long with the best found by then (Ctrl-C: at once, with "
                   "exit code 130)")
      ->type_name("SECONDS")
      ->check(in_range(0.1, 1e6));
  command
      ->add_option("--headroom", choice->headroom,
                   "Percent of a GPU's memory that a layout must leave free")
      ->type_name("PERCENT")
      ->check(in_range(0.0, 90.0));
  command->add_flag("--exhaustive", choice->exhaustive, "Simulate every legal layout");
  command->add_flag("--no-refine", choice->no_refine,
                    "Leave placements and collective algorithms of the best as they are");
  add_journal_option(*command, choice->journal);
  add_output_file(*command, "--json", choice->json,
                  "Write the best, the front, the changes and the counts as JSON");
  add_output_file(*command, "--csv", choice->csv, "Write the best and the front as CSV");
  add_output_file(*command, "--html", choice->html,
                  "Write a page: the best, step time against memory, the sizes, the counts");
  add_processes_option(*command, choice->processes);
  command->footer(
      "Tried where --over does not say otherwise: tensor, context, pipeline and expert ranks, "
      "chunks,\n"
      "schedules, sharding, micro-batch and recomputation; then, of the best, the order of ranks "
      "and\n"
      "the algorithms of the collectives they wait for. Bounds prune what cannot be among the "
      "best;\n"
      "of layouts that differ in their interleaving alone the quickest is listed.\n"
      "Example:\n"
      "  trainyard search scenarios/llama3/llama3_8b_8xh100.json "
      "--over training.micro_batch_size=1,2 --price 2.5");
  command->callback([choice, &action] { action = [choice] { return search_layouts(*choice); }; });
}

}  // namespace trainyard
