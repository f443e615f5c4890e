#include "tools/studies/seeds/over_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"

namespace trainyard {

namespace {

void refuse_without_draws(const Scenario& scenario) {
  const TrainingPlan& plan = scenario.plan;
  const bool routes =
      plan.architecture.has_experts() && plan.experts.routing != RoutingKind::Balanced;
  if (plan.documents.drawn() || routes) return;
  throw InputError(Problem{.file = scenario.file,
                           .pointer = "/documents",
                           .problem = "nothing in the scenario is drawn, so all batches are equal",
                           .hint = "draw lengths of documents: --set documents.preset=NAME"});
}

double step_s(Scenario scenario, std::uint64_t seed, DocumentBalance balance) {
  scenario.seed = seed;
  scenario.plan.seed = seed;
  scenario.plan.documents.balance = balance;
  const Result result = simulate(scenario, {.figures = false});
  return result.view().step_s();
}

}  // namespace

BatchTimes over_batches(const Scenario& scenario, const OverBatchesOptions& options) {
  refuse_without_draws(scenario);
  const Documents& documents = scenario.plan.documents;
  // With drawn documents, each batch is simulated as drawn and balanced, whichever of the two the
  // scenario has. The report compares them on equal documents.
  std::vector<DocumentBalance> balances{documents.balance};
  if (documents.drawn())
    balances = {DocumentBalance::None, documents.balance == DocumentBalance::None
                                           ? DocumentBalance::Documents
                                           : documents.balance};
  // Task i is batch i % batches with balance i / batches: all batches as drawn, then all balanced.
  const std::size_t all = options.batches * balances.size();
  std::vector<double> times(all);
  std::size_t done = 0;
  load_fluid_solver();
  run_in_processes(
      all, {.work =
                [&](std::size_t i) {
                  // fmt writes as many digits as it takes to read the same number back.
                  return fmt::format("{}", step_s(scenario, scenario.seed + i % options.batches,
                                                  balances[i / options.batches]));
                },
            .done =
                [&](std::size_t i, const Answer& answer) {
                  if (answer.kind != Answer::Kind::Fine)
                    throw RunError(fmt::format("the batch of seed {}: {}",
                                               scenario.seed + i % options.batches, answer.text));
                  times[i] = std::stod(answer.text);
                  if (options.progress) options.progress(++done, all);
                },
            .processes = options.processes});
  const auto part = [&](std::size_t number) {
    const auto first = times.begin() + static_cast<std::ptrdiff_t>(number * options.batches);
    return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(options.batches));
  };
  BatchTimes found{.first_seed = scenario.seed, .step_s = part(0)};
  if (balances.size() == 1) return found;
  found.as_drawn_s = part(0);
  found.balanced_s = part(1);
  if (documents.balance != DocumentBalance::None) found.step_s = found.balanced_s;
  found.balance = balances[1] == DocumentBalance::Sequences ? "sequences" : "documents";
  return found;
}

}  // namespace trainyard
