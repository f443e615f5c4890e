#include "scenarios/run/run.hpp"

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "models/collectives/nccl/transport.hpp"
#include "models/host/host_lanes.hpp"
#include "models/lower/lower.hpp"
#include "scenarios/run/approximations.hpp"
#include "scenarios/run/blocked_sends.hpp"
#include "scenarios/run/device_kinds.hpp"
#include "scenarios/run/facts.hpp"
#include "scenarios/run/memory_overheads.hpp"
#include "scenarios/run/own_pace.hpp"
#include "scenarios/run/refused_algorithms.hpp"
#include "scenarios/run/replay.hpp"
#include "sim/base/beside.hpp"
#include "sim/base/error.hpp"
#include "sim/fold/join_ground.hpp"
#include "sim/fold/joint_graph.hpp"
#include "sim/timeline/breakdown.hpp"

namespace trainyard {

namespace {

constexpr std::uint64_t kOperationsWorthAThread = 10'000;
constexpr std::uint32_t kPacesTaken = 4;  // the second differs from the first by a step or none

// Wall time and peak memory of the process so far, into the facts.
class Stopwatch {
 public:
  void record(RunFacts& facts) const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    facts.wall_s = elapsed.count();
    facts.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::shared_ptr<const Cluster> cluster_of(const ClusterSpec& spec, const Supposition& suppose) {
  std::shared_ptr<const Cluster> cluster = shared_cluster(spec);
  if (!suppose.changes_links()) return cluster;
  return std::make_shared<const Cluster>(supposed_cluster(suppose, *cluster));
}

}  // namespace

Workload scenario_workload(const Scenario& scenario, const Cluster& cluster) {
  Workload workload = lower(scenario.plan);
  if (scenario.collective_model != "stepwise") return workload;
  const nccl::NcclTransport transport(cluster, options_of(scenario.plan.collectives));
  return expand_collectives(workload, cluster, [&](const Call& call, auto gpus) {
    return transport.stepwise_name(call, gpus);
  });
}

struct WhatIf::Kept {
  Scenario scenario;
  RunOptions options;
  Run run = {};
  RunFacts facts = {};  // of the scenario, before any run
  std::optional<KeptForReplays> for_replays = {};

  // With what folding needs of the cluster alone, which is found meanwhile.
  void prepare() {
    std::optional<JoinGround> ground;
    beside(
        is_large(*run.cluster), [&] { ground.emplace(*run.cluster); }, [this] { lower(); });
    if (ground) for_replays->ground.emplace(std::move(*ground));
  }

  void replay_once(const RunOptions& how) {
    if (!for_replays || scenario.collective_model == "stepwise") prepare();
    replay(run, scenario.plan.collectives, how, *for_replays);
  }

  // Workers of one speed make the same number of steps, and one replay is enough.
  void replay_at_own_pace(const RunOptions& how) {
    TrainingPlan& plan = scenario.plan;
    if (!plan.servers.steps_of_worker.empty()) for_replays.reset();
    plan.servers.steps_of_worker.clear();
    replay_once(how);
    const auto workers = static_cast<std::size_t>(plan.parallelism.data);
    const auto steps = static_cast<std::uint32_t>(plan.servers.steps);
    std::vector<std::uint32_t> made(workers, steps);
    for (std::uint32_t again = 0; again < kPacesTaken; ++again) {
      std::optional<std::uint32_t> staleness;
      if (!plan.servers.asynchronous)
        staleness = static_cast<std::uint32_t>(plan.servers.staleness);
      std::vector<std::uint32_t> paced =
          shared_out(step_ends(run, plan), std::uint64_t{steps} * workers, staleness);
      if (paced == made) break;
      plan.servers.steps_of_worker = made = std::move(paced);
      for_replays.reset();
      run.facts = facts;
      replay_once(how);
    }
    add_pace(made, run.facts);
  }

  // What ranks do depends on the links only where NCCL chooses how messages go.
  void lower() {
    run.workload = scenario_workload(scenario, *run.cluster);
    for_replays.emplace(KeptForReplays{.gpu_of_kernel = specialise(run.workload, *run.cluster),
                                       .pricings = KernelPricings(kernel_software(scenario))});
    for_replays->hosts =
        host_lanes(run.workload, scenario.host_costs, host_habits(scenario.plan.parallelism));
  }
};

WhatIf::WhatIf(const Scenario& scenario, const RunOptions& options)
    : kept_(std::make_unique<Kept>(Kept{.scenario = scenario, .options = options})) {
  kept_->options.interference = options.interference && scenario.interference;
  kept_->run.cluster = shared_cluster(scenario.cluster);
  kept_->facts = scenario_facts(scenario, *kept_->run.cluster);
  add_plan_approximations(scenario, kept_->facts);
  add_cluster_approximations(*kept_->run.cluster, kept_->facts);
}

WhatIf::~WhatIf() = default;

const Run& WhatIf::run(const Supposition& suppose) {
  Run& run = kept_->run;
  const Scenario& scenario = kept_->scenario;
  run.cluster = cluster_of(scenario.cluster, suppose);
  run.facts = kept_->facts;
  RunOptions options = kept_->options;
  options.suppose = suppose;
  try {
    if (scenario.plan.servers.run_ahead()) {
      kept_->replay_at_own_pace(options);
    } else {
      kept_->replay_once(options);
    }
  } catch (const Deadlock& deadlock) {
    refuse_blocked_sends(scenario, deadlock);
    throw;
  } catch (const RunError&) {
    check_chosen_algorithms(scenario, *run.cluster);
    throw;
  }
  run.facts.published =
      compare_published(scenario, run.facts, Seconds{run.timeline.makespan_s} / run.facts.steps);
  return run;
}

Run WhatIf::take() && {
  Run& run = kept_->run;
  const auto overheads = [this, &run] {
    add_memory_overheads(kept_->scenario.plan.framework, run);
  };
  if (!kept_->options.breakdowns) {
    overheads();
  } else {  // which overheads do not touch: they add to what programs hold throughout
    const bool worth = run.timeline.counters.operations > kOperationsWorthAThread;
    // Memory overheads read the run meanwhile (RunView), so its list is replaced after both ended.
    std::vector<Breakdown> found;
    beside(
        worth, [&] { found = breakdowns(run.workload, run.partition, run.timeline); }, overheads);
    run.breakdowns = std::move(found);
  }
  return std::move(run);
}

Run run_scenario(const Scenario& scenario, const RunOptions& options) {
  const Stopwatch stopwatch;
  WhatIf what_if(scenario, options);
  (void)what_if.run(options.suppose);
  Run run = std::move(what_if).take();
  if (options.timing) stopwatch.record(run.facts);
  return run;
}

Run run_workload(WorkloadQuestion question, const RunOptions& options) {
  const Stopwatch stopwatch;
  Run run;
  run.cluster = shared_cluster(question.cluster);
  run.facts.title = std::move(question.title);
  run.facts.engine = question.engine;
  run.workload = std::move(question.workload);
  const Scenario* as = question.software ? &*question.software : nullptr;
  KeptForReplays kept{.gpu_of_kernel = specialise(run.workload, *run.cluster),
                      .pricings = KernelPricings(as ? kernel_software(*as) : KernelSoftware{})};
  RunOptions software = options;
  if (as) {
    kept.hosts = host_lanes(run.workload, as->host_costs, host_habits(as->plan.parallelism));
    software.interference = options.interference && as->interference;
  } else {
    add_software_approximation(run.workload, run.facts);
  }
  replay(run, as ? as->plan.collectives : CollectiveChoice{}, software, kept);
  if (as) add_memory_overheads(as->plan.framework, run);
  if (options.timing) stopwatch.record(run.facts);
  return run;
}

}  // namespace trainyard
