// The main line: how a scenario becomes a result, stage by stage. A stage takes values and returns
// a value; the memo has what a stage gave before for equal inputs.
#include "scenarios/simulate/simulate.hpp"

#include <utility>

#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/facts.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/memory_overheads.hpp"
#include "scenarios/simulate/own_pace.hpp"
#include "scenarios/simulate/refusals.hpp"
#include "scenarios/simulate/stages.hpp"
#include "sim/base/beside.hpp"
#include "sim/contention/alike_places.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {

namespace {

constexpr std::uint64_t kOperationsWorthAThread = 10'000;

// A step is what is simulated: ranks on a cluster, and the software around them.
struct Step {
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Lowered> lowered = {};
  const Scenario* software = nullptr;  // null: it is not known
  std::string engine = {};
  std::optional<AlikePlaces> places = {};  // of the cluster; nothing: the fold finds them
};

void check_stop(const SimulateOptions& options) {
  if (options.stop.stop_requested()) throw Cancelled("the simulation was stopped");
}

// Builds the cluster on which the step runs.
std::shared_ptr<const Cluster> build(const ClusterSpec& spec, const WhatIf& what_if, Memo& memo) {
  const std::shared_ptr<const Cluster> cluster = shared_cluster(spec);
  if (!what_if.changes_links()) return cluster;
  return memo.get<Cluster>([&] { return changed_cluster(what_if, *cluster); }, spec, what_if.nvlink,
                           what_if.network);
}

// Says what each rank does. What folding needs of the cluster alone is found meanwhile.
Step lower(const Scenario& scenario, const std::shared_ptr<const Cluster>& cluster, Memo& memo) {
  Step step{.cluster = cluster, .software = &scenario, .engine = scenario.engine};
  const auto lower_it = [&] {
    return beside(
        is_large(*cluster), [&] { step.places.emplace(*cluster); },
        [&] { return lower_scenario(scenario, *cluster); });
  };
  // Stepwise collectives are spelled out in the workload, as NCCL chooses them on these links.
  const bool stepwise = scenario.collective_model == CollectiveModel::Stepwise;
  step.lowered = memo.get<Lowered>(lower_it, scenario.plan, scenario.host_costs, scenario.cluster,
                                   stepwise ? cluster : nullptr);
  return step;
}

// Finds who is interchangeable, and how calls load links.
std::shared_ptr<const Folded> fold(Step& step, const SimulateOptions& options, Memo& memo) {
  const FoldQuestion question{
      .collectives = step.software ? step.software->plan.collectives : CollectiveChoice{},
      .fold = options.fold,
      .reasons = options.fold_reasons};
  return memo.get<Folded>(
      [&] {
        AlikePlaces* const places = step.places ? &*step.places : nullptr;
        return fold_workload(*step.lowered, *step.cluster, question, places);
      },
      step.cluster, options.fold_reasons ? step.lowered : nullptr, FoldedCalls{step.lowered},
      question);
}

std::shared_ptr<const Partition> partition_of(const std::shared_ptr<const Folded>& folded,
                                              const Workload& workload, const WhatIf& what_if) {
  if (!what_if.changes_communication()) return {folded, &folded->partition};
  return std::make_shared<const Partition>(changed_partition(what_if, workload, folded->partition));
}

// Plays the step: the timeline says when everything happens.
Timeline play(const Result& result, const Step& step, const Interference& losses,
              const SimulateOptions& options) {
  std::vector<double> seconds;
  seconds.reserve(result.kernel_costs.size());
  for (const Cost& cost : result.kernel_costs) seconds.push_back(cost.time.value());
  return make_engine(result.facts.engine)
      ->run({.cluster = *result.cluster,
             .workload = *result.workload,
             .partition = *result.partition,
             .kernel_seconds = seconds,
             .progress = options.progress,
             .stop = options.stop,
             .compute_loss = losses.compute,
             .communication_loss = losses.communication,
             .hosts = step.lowered->hosts,
             .contract = options.contract,
             .record = options.figures,
             .known = step.lowered->known.get()});
}

// Finds the peaks of memory, and where time went.
void add_figures(Result& result, const Step& step, const SimulateOptions& options) {
  const bool worth = result.timeline.counters.operations > kOperationsWorthAThread;
  MemoryFound memory;
  std::vector<Breakdown> found;
  const RunView view = result.view();
  beside(
      worth && options.figures && options.breakdowns,
      [&] {
        if (options.breakdowns) found = breakdowns(view.workload, view.partition, view.timeline);
      },
      [&] {
        if (options.figures && step.software)
          memory = find_memory(view, step.software->plan.framework);
      });
  result.software_memory = std::move(memory.software);
  result.memory_peaks = std::move(memory.peaks);
  result.breakdowns = std::move(found);
}

// Folds, prices and plays the step. `facts` are what is known before.
Result simulate(Step step, RunFacts facts, const SimulateOptions& options, Memo& memo) {
  check_stop(options);
  const WhatIf& what_if = options.what_if;
  const Scenario* const software = step.software;
  const bool interferes =
      options.interference && what_if.interference && (!software || software->interference);
  KernelPricings pricings(software ? kernel_software(*software) : KernelSoftware{}, memo);
  std::vector<Cost> costs;
  std::shared_ptr<const Folded> folded;
  beside(
      step.places.has_value(),  // else this is no first simulation, and prices are known
      [&] { costs = price_kernels(*step.lowered, pricings, interferes, what_if); },
      [&] { folded = fold(step, options, memo); });
  check_stop(options);
  Result result{.facts = std::move(facts),
                .cluster = step.cluster,
                .workload = step.lowered->workload,
                .partition = partition_of(folded, *step.lowered->workload, what_if),
                .carriers = {folded, &folded->carriers},
                .fold_reasons = folded->reasons,
                .kernel_costs = std::move(costs)};
  result.facts.engine = what_if.contention ? step.engine : "ideal";
  const Interference losses =
      interferes ? find_interference(*step.cluster, *step.lowered, *folded, pricings)
                 : Interference{};
  result.timeline = play(result, step, losses, options);
  add_figures(result, step, options);
  result.facts =
      with_run(std::move(result.facts), *result.cluster, result.timeline, folded->approximations,
               cost_approximations(step.lowered->used, result.kernel_costs));
  return result;
}

// Simulates the scenario with as many steps of each worker as its plan says.
Result simulate_as_planned(const Scenario& scenario, const SimulateOptions& options, Memo& memo) {
  try {
    const auto cluster = build(scenario.cluster, options.what_if, memo);
    Step step = lower(scenario, cluster, memo);
    const auto facts = memo.get<RunFacts>(
        [&] { return scenario_facts(scenario, *shared_cluster(scenario.cluster)); }, scenario);
    Result result = simulate(std::move(step), *facts, options, memo);
    const Seconds step_time{result.timeline.makespan_s / result.facts.steps};
    result.facts.published = compare_published(scenario, result.facts, step_time);
    return result;
  } catch (const RefusedCall& refused) {
    name_refused_choice(scenario, refused);
    throw;
  } catch (const Deadlock& deadlock) {
    refuse_blocked_sends(scenario, deadlock);
    throw;
  }
}

}  // namespace

RunView Result::view() const {
  return {.facts = facts,
          .cluster = *cluster,
          .workload = *workload,
          .partition = *partition,
          .carriers = *carriers,
          .timeline = timeline,
          .kernel_costs = kernel_costs,
          .fold_reasons = fold_reasons,
          .software_memory = software_memory,
          .memory_peaks = memory_peaks,
          .breakdowns = breakdowns};
}

Result simulate(const Scenario& scenario, const SimulateOptions& options, Memo& memo) {
  const Stopwatch stopwatch;
  Result result;
  if (scenario.plan.servers.run_ahead()) {
    SimulateOptions recorded = options;
    recorded.figures = true;  // the ends of steps say how many each worker makes
    result = simulate_at_own_pace(scenario, [&](const Scenario& paced) {
      return simulate_as_planned(paced, recorded, memo);
    });
  } else {
    result = simulate_as_planned(scenario, options, memo);
  }
  if (options.timing) stopwatch.record(result.facts);
  return result;
}

Result simulate(const Scenario& scenario, const SimulateOptions& options) {
  Memo memo;
  return simulate(scenario, options, memo);
}

Result simulate(WorkloadQuestion question, const SimulateOptions& options) {
  const Stopwatch stopwatch;
  Memo memo;
  Step step{.cluster = shared_cluster(question.cluster),
            .software = question.software ? &*question.software : nullptr,
            .engine = question.engine};
  RunFacts facts;
  facts.title = std::move(question.title);
  if (!step.software) facts.approximations = software_approximations(question.workload);
  step.lowered = std::make_shared<const Lowered>(
      step.software ? lowered_for(*step.software, std::move(question.workload), *step.cluster)
                    : Lowered(std::move(question.workload), *step.cluster));
  Result result = simulate(std::move(step), std::move(facts), options, memo);
  if (options.timing) stopwatch.record(result.facts);
  return result;
}

}  // namespace trainyard
