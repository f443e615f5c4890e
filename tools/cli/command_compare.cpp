// `trainyard compare`: shows several scenarios, or several changes to one scenario, side by side.
#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/compare/comparison.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

namespace {

struct CompareChoice {
  std::vector<std::string> scenarios;
  std::vector<std::string> sets;
  std::vector<std::vector<std::string>> sides;  // --with: the changes of each
  std::string json, csv, html;
  std::size_t processes = 0;
  bool ideal = false;
};

[[noreturn]] void refuse(std::string problem, std::string hint) {
  throw InputError(
      Problem{.file = {}, .pointer = {}, .problem = std::move(problem), .hint = std::move(hint)});
}

std::vector<Variant> variants_of(const CompareChoice& choice) {
  if (choice.scenarios.size() > 1 && !choice.sides.empty()) {
    refuse("several scenarios and --with leave open what is compared with what",
           "give one scenario with several --with, or several scenarios");
  }
  if (choice.scenarios.size() == 1 && choice.sides.empty()) {
    refuse("there is nothing to compare with",
           "name a second scenario, or a change: --with parallelism.tensor=4 parallelism.data=2");
  }
  std::vector<Override> changes;  // of every side
  if (choice.ideal) changes.push_back(ideal_override());
  for (const std::string& set : choice.sets) changes.push_back(override_of(set));
  std::vector<Variant> variants;
  for (const std::string& file : choice.scenarios)
    variants.push_back({.file = file, .changes = changes});
  for (const std::vector<std::string>& group : choice.sides) {
    Variant& side =
        variants.emplace_back(Variant{.file = choice.scenarios.front(), .changes = changes});
    for (const std::string& change : group) side.changes.push_back(override_of(change, "--with"));
  }
  return variants;
}

Exit compare_sides(const CompareChoice& choice) {
  refuse_outputs({choice.json, choice.csv, choice.html},
                 {choice.scenarios.begin(), choice.scenarios.end()});
  Progress progress("comparing");
  const Comparison comparison =
      compare(variants_of(choice),
              {.processes = choice.processes, .progress = [&](std::size_t done, std::size_t all) {
                 progress.show(static_cast<double>(done) / static_cast<double>(all));
               }});
  if (!choice.json.empty()) write_file(choice.json, to_text(comparison_json(comparison)));
  if (!choice.csv.empty()) write_file(choice.csv, comparison_csv(comparison));
  if (!choice.html.empty()) write_file(choice.html, comparison_page(comparison));
  say("{}", comparison_text(comparison));
  for (const ComparedSide& side : comparison.sides)
    if (side.figures.status == RunStatus::Fits) return Exit::Fine;
  return Exit::RunSaysNo;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto choice = std::make_shared<CompareChoice>();
  CLI::App* command =
      app.add_subcommand("compare", "Show scenarios, or changes to one, side by side");
  command->add_option("scenario", choice->scenarios, "Scenario files (see scenarios/)")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--with", choice->sides,
                   "One more side: the scenario with these changes (repeatable)")
      ->type_name("PATH=VALUE");
  add_set_option(*command, choice->sets);
  add_ideal_option(*command, choice->ideal);
  add_output_file(*command, "--json", choice->json, "Write the comparison as JSON");
  add_output_file(*command, "--csv", choice->csv, "Write the comparison as CSV");
  add_output_file(*command, "--html", choice->html, "Write the comparison as a page");
  add_processes_option(*command, choice->processes);
  command->footer(
      "Example:\n"
      "  trainyard compare scenarios/llama3/llama3_8b_8xh100.json "
      "--with parallelism.tensor=4 parallelism.data=2 --with training.recompute=full");
  command->callback([choice, &action] { action = [choice] { return compare_sides(*choice); }; });
}

}  // namespace trainyard
