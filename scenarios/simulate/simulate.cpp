// The main line: converts a scenario to a result, stage by stage. A stage takes values and returns
// a value; the memo returns the earlier value for equal inputs.
//
//     cluster  = build_cluster(scenario.cluster)    topology, routes
//     step     = lower_step(scenario, cluster)      the program of each rank
//     folded   = fold_step(step)                    equivalence classes, and how calls load links
//     costs    = price_kernels(step.lowered)        kernel times, slower at lower clocks
//     timeline = play(folded, costs)                start and end of every operation
//     result   = memory, breakdown, facts           the figures of the run
#include "scenarios/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/lower/local_steps.hpp"
#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/balance.hpp"
#include "scenarios/simulate/facts.hpp"
#include "scenarios/simulate/folded.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "scenarios/simulate/memory_overheads.hpp"
#include "scenarios/simulate/own_pace.hpp"
#include "scenarios/simulate/play.hpp"
#include "scenarios/simulate/power.hpp"
#include "scenarios/simulate/refusals.hpp"
#include "scenarios/simulate/stage_clocks.hpp"
#include "scenarios/simulate/stage_report.hpp"
#include "scenarios/simulate/step_interval.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/base/data_use.hpp"

namespace trainyard {

namespace {

// Below this number a second thread costs more than it saves.
constexpr std::uint64_t kOperationsWorthAThread = 10'000;

void check_stop(const SimulateOptions& options) {
  if (options.stop.stop_requested()) throw Cancelled("the simulation was stopped");
}

// Computes the memory peaks and the breakdown of time.
void add_figures(Result& result, const Scenario* software) {
  const bool worth = result.timeline.counters.operations > kOperationsWorthAThread;
  MemoryFound memory;
  std::vector<Breakdown> found;
  const RunView view = result.view();
  run_concurrently(
      worth, [&] { found = breakdowns(view.workload, view.partition, view.timeline); },
      [&] {
        if (software) memory = find_memory(view, software->plan.framework);
      });
  result.software_memory = std::move(memory.software);
  result.memory_peaks = std::move(memory.peaks);
  result.breakdowns = std::move(found);
}

// Folds, prices and runs a lowered step. `facts` are known before the run.
Result simulate(const LoweredStep& step, RunFacts facts, const SimulateOptions& options,
                Memo& memo) {
  check_stop(options);
  const WhatIf& what_if = options.what_if;
  const Lowered& lowered = *step.lowered;
  const bool interferes = options.interference && what_if.interference &&
                          (!step.software || step.software->interference);
  KernelPricings pricings(step.software ? kernel_software(*step.software) : KernelSoftware{}, memo);
  std::vector<Cost> costs;
  std::optional<PowerRates> power;
  std::shared_ptr<const Folded> folded;
  run_concurrently(
      step.places != nullptr,  // the first simulation of a large cluster
      [&] {
        StageReport pricing(options.stage);
        costs = price_kernels(lowered, pricings, interferes, what_if);
        power = power_under_cap(step, pricings, costs);
        pricing.priced(costs);
      },
      [&] {
        StageReport folding(options.stage);
        folded = fold_step(step, {.fold = options.fold, .reasons = options.fold_reasons}, memo);
        folding.folded(folded->partition);
      });
  StageReport report(options.stage);
  check_stop(options);
  Result result{
      .facts = std::move(facts),
      .cluster = step.cluster,
      .workload = lowered.workload,
      .partition = changed_partition(what_if, *lowered.workload, {folded, &folded->partition}),
      .selected_algorithms = {folded, &folded->selected_algorithms},
      .fold_reasons = folded->reasons,
      .kernel_costs = std::move(costs),
      .power = std::move(power)};
  result.facts.engine = what_if.contention ? step.engine : "ideal";
  const Interference losses =
      interferes ? find_interference(*step.cluster, lowered, *folded, pricings) : Interference{};
  result.timeline = play(result, lowered, losses, options);
  report.simulated(result.timeline);
  if (options.figures) add_figures(result, step.software);
  report.found_figures();
  result.facts =
      with_run(std::move(result.facts), *result.cluster, result.timeline, folded->approximations,
               cost_approximations(lowered.used, result.kernel_costs));
  return result;
}

// Simulates the exchange that follows several steps of workers that train apart. `step` is one of
// their steps. Nothing for a plan of one worker.
std::optional<LocalStepsFacts> simulate_exchange(const LoweredStep& step,
                                                 const SimulateOptions& options, Memo& memo) {
  const TrainingPlan& plan = step.software->plan;
  if (!plan.local_steps.used()) return {};
  LoweredStep exchange = step;
  exchange.lowered = std::make_shared<const Lowered>(
      lowered_for(*step.software, exchange_step(plan, *step.lowered->workload), *step.cluster));
  SimulateOptions quiet = options;
  quiet.progress = {};
  quiet.stage = {};
  const Result run = simulate(exchange, {}, quiet, memo);
  const std::int64_t most = std::ranges::max(exchanged_parameters(plan));
  LocalStepsFacts facts{.every = plan.local_steps.every,
                        .workers = plan.local_steps.workers,
                        .exchange_s = run.timeline.makespan_s,
                        .exchange_bytes = std::llround(static_cast<double>(most) *
                                                       element_bytes(plan.local_steps.precision)),
                        .state_bytes = most * kOuterStateBytes};
  if (run.power && options.figures)
    facts.exchange =
        run_energy(*run.cluster, *run.workload, *run.partition, run.timeline, *run.power);
  return facts;
}

// Simulates the scenario with the steps of each worker that its plan contains.
Result simulate_as_planned(const Scenario& scenario, const SimulateOptions& options, Memo& memo) {
  try {
    StageReport report(options.stage);
    const auto cluster = build_cluster(scenario.cluster, options.what_if, memo);
    report.built(*cluster);
    const LoweredStep step = lower_step(scenario, cluster, memo);
    report.lowered(*step.lowered->workload);
    // Facts hold for the cluster as described, so all what-ifs share them.
    const auto facts = memo.get<RunFacts>(
        [&] {
          return scenario_facts(scenario, *shared_cluster(scenario.cluster), options.figures);
        },
        scenario, options.figures);
    Result result = simulate(step, *facts, options, memo);
    result.facts.local_steps = simulate_exchange(step, options, memo);
    result.facts.published =
        compare_published(scenario, result.facts, Seconds{result.view().step_s()});
    if (options.figures) result.facts.interval = step_interval(scenario, result.view());
    return result;
  } catch (const RefusedCall& refused) {
    name_refused_choice(scenario, refused);
    throw;
  } catch (const Deadlock& deadlock) {
    refuse_blocked_sends(scenario, deadlock);
    throw;
  }
}

// Simulates the scenario with what its plan leaves to the simulation: the steps of each worker, or
// the shares of each GPU.
Result simulate_with_shares(const Scenario& scenario, SimulateOptions options, Memo& memo) {
  const auto planned = [&](const Scenario& shared) {
    return simulate_as_planned(shared, options, memo);
  };
  if (scenario.plan.servers.run_ahead()) {
    options.figures = true;  // the ends of steps determine how many each worker makes
    return simulate_at_own_pace(scenario, planned);
  }
  if (scenario.plan.parallelism.balance == Balance::Auto) {
    options.figures = true;  // the shares follow from times and memory
    return simulate_balanced(scenario, planned);
  }
  return planned(scenario);
}

// Lowers the clocks of the shares that balancing finds at full clocks.
Result simulate_within_tolerance(Scenario scenario, SimulateOptions options, Memo& memo) {
  options.figures = true;  // energy follows from the times of operations
  std::optional<BalanceFacts> shares;
  if (scenario.plan.parallelism.balance == Balance::Auto) {
    shares = simulate_with_shares(scenario, options, memo).facts.balance;
    scenario = with_shares(std::move(scenario), *shares);
  }
  Result result = simulate_lower_clocks(scenario, [&](const Scenario& clocked) {
    return simulate_with_shares(clocked, options, memo);
  });
  if (shares) add_balance(*shares, result.view().step_s(), result.facts);
  return result;
}

}  // namespace

RunView Result::view() const {
  return {.facts = facts,
          .cluster = *cluster,
          .workload = *workload,
          .partition = *partition,
          .selected_algorithms = *selected_algorithms,
          .timeline = timeline,
          .kernel_costs = kernel_costs,
          .fold_reasons = fold_reasons,
          .software_memory = software_memory,
          .memory_peaks = memory_peaks,
          .breakdowns = breakdowns,
          .power = power ? &*power : nullptr};
}

Result simulate(const Scenario& scenario, const SimulateOptions& options, Memo& memo) {
  const Stopwatch stopwatch;
  const DataUse use;
  const bool lowers_clocks = scenario.power && scenario.power->clock_tolerance;
  Result result = lowers_clocks ? simulate_within_tolerance(scenario, options, memo)
                                : simulate_with_shares(scenario, options, memo);
  DataUse::note(scenario.own_files);
  result.facts.own_files = use.files();
  if (options.timing) stopwatch.record(result.facts);
  return result;
}

Result simulate(const Scenario& scenario, const SimulateOptions& options) {
  Memo memo;
  return simulate(scenario, options, memo);
}

Result simulate(WorkloadRun question, const SimulateOptions& options) {
  const Stopwatch stopwatch;
  const DataUse use;
  Memo memo;
  StageReport report(options.stage);
  const auto cluster = shared_cluster(question.cluster);
  report.built(*cluster);
  const Scenario* const software = question.software ? &*question.software : nullptr;
  RunFacts facts;
  facts.title = std::move(question.title);
  if (software == nullptr) facts.approximations = software_approximations(question.workload);
  Lowered lowered = software ? lowered_for(*software, std::move(question.workload), *cluster)
                             : Lowered(std::move(question.workload), *cluster);
  const LoweredStep step{.cluster = cluster,
                         .lowered = std::make_shared<const Lowered>(std::move(lowered)),
                         .software = software,
                         .engine = question.engine};
  report.lowered(*step.lowered->workload);
  Result result = simulate(step, std::move(facts), options, memo);
  if (software != nullptr) DataUse::note(software->own_files);
  result.facts.own_files = use.files();
  if (options.timing) stopwatch.record(result.facts);
  return result;
}

}  // namespace trainyard
