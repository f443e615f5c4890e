#include "tools/cli/run_model.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/search/search.hpp"
#include "tools/studies/start/first_scenario.hpp"

namespace trainyard {

namespace {

// Searches all legal layouts with one sequence in a microbatch. Ctrl-C ends it with the best layout
// by then.
SearchResult searched(const Variant& scenario) {
  Journal journal = open_journal("");
  Progress progress("searching a layout (Ctrl-C: take the best so far)");
  const Interrupt interrupt;
  return search(
      {.space = {.scenario = scenario, .over = {axis_of({"training.micro_batch_size=1"})}},
       .journal = journal,
       .top = 1,
       .front = false,
       .end = [&] { return interrupt.pending_interrupt(); },
       .progress = [&](const std::string&, double fraction) { progress.show(fraction); }});
}

}  // namespace

void add_model_options(CLI::App& command, ModelChoice& choice) {
  auto* model =
      command.add_option("--model", choice.model,
                         "In place of a scenario: a model of `trainyard list models`, its "
                         "name on Hugging Face, or a config.json");
  command.add_option("--gpus", choice.gpus, "GPUs for --model")
      ->type_name("N")
      ->check(in_range(1, 1 << 20))
      ->needs(model);
  command.add_option("--gpu", choice.gpu, "GPU for --model (see `trainyard list gpus`)")
      ->capture_default_str()
      ->needs(model);
  command.add_option("--sequence", choice.sequence, "Tokens in a sequence, for --model")
      ->type_name("N")
      ->check(in_range(1, 1 << 24))
      ->needs(model);
  command
      .add_option("--batch", choice.batch,
                  "Sequences in a step, for --model (default: as published runs of its size)")
      ->type_name("N")
      ->check(in_range(1, 1 << 24))
      ->needs(model);
}

Scenario found_scenario(const ModelChoice& choice, const std::vector<Override>& changes) {
  NodesOfGpus nodes = nodes_of_gpus(choice.gpu, choice.gpus);
  const std::string name = "--model";  // in messages
  const FirstScenario first = first_guess({.name = name,
                                           .model = known_model(choice.model),
                                           .node = std::move(nodes.node),
                                           .nodes = nodes.nodes,
                                           .sequence = choice.sequence,
                                           .batch = choice.batch});
  const Variant variant{.file = name,
                        .changes = changes,
                        .document = std::make_shared<const nlohmann::ordered_json>(first.document)};
  const SearchResult result = searched(variant);
  const SearchCounts& counts = result.counts;
  const bool ended = counts.not_reached + counts.combinations_not_read > 0;
  if (result.best.empty() && !first.fits && !ended) refuse_unfitting(choice.model, choice.gpus);
  Scenario scenario =
      load_variant(result.best.empty() ? variant : result.best.front().layout.variant);
  // The report lists the changes of a scenario as the user's. Those of the search are its layout,
  // which the report shows anyway.
  scenario.changes.clear();
  for (const Override& change : changes)
    scenario.changes.push_back(fmt::format("{}={}", change.path, change.value));
  scenario.description = fmt::format(
      "{} on {} {}: the quickest of {} legal layouts, {} of which were simulated; --out FOLDER "
      "writes the scenario",
      choice.model, choice.gpus, choice.gpu, counts.legal, counts.simulated);
  return scenario;
}

}  // namespace trainyard
