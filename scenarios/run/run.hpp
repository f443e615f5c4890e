// From a scenario to a finished run: builds the cluster, lowers the plan, folds, prices, replays.
//
//   Scenario scenario = load_scenario("scenarios/first/two_gpus.json", {});
//   Run run = run_scenario(scenario, {});
//   fmt::print("{}", summary_text(run.view()));
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/run/supposition.hpp"
#include "scenarios/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct RunOptions {
  bool fold = true;           // false: every rank is simulated
  bool contract = true;       // false: every operation has events of its own
  bool interference = true;   // false: communication never slows computation
  bool fold_reasons = false;  // say why ranks are not of one class. REQUIRES: fold
  bool breakdowns = false;    // Run::breakdowns are found beside the peaks of memory
  bool timing = false;        // wall time and memory of the run itself go into the facts
  std::function<void(double)> progress = {};  // fraction done, now and then
  Supposition suppose = {};                   // what is not as the scenario says
};

// A run owns all that a RunView refers to.
struct Run {
  RunFacts facts;
  std::shared_ptr<const Cluster> cluster;
  Workload workload;
  Partition partition;
  std::vector<ClassReason> fold_reasons;  // where they were asked for
  Carriers carriers;
  std::vector<Cost> kernel_costs;
  Timeline timeline;
  std::vector<MemoryPeak> memory_peaks;  // by rank class; empty for a workload that is not ours
  std::vector<Breakdown> breakdowns;     // by rank class, where they were asked for

  [[nodiscard]] RunView view() const {
    return {.facts = facts,
            .cluster = *cluster,
            .workload = workload,
            .partition = partition,
            .carriers = carriers,
            .timeline = timeline,
            .kernel_costs = kernel_costs,
            .fold_reasons = fold_reasons,
            .memory_peaks = memory_peaks,
            .breakdowns = breakdowns};
  }
};

[[nodiscard]] Run run_scenario(const Scenario& scenario, const RunOptions& options);

// Many runs of one scenario that differ in what is supposed of its hardware. What the ranks do is
// lowered once, and what follows from it alone (stretches, who waits for whom) is found once.
//
//   WhatIf what_if(scenario, {});
//   for (double factor : {1.0, 2.0, 4.0}) what_if.run({.network = factor}).timeline.makespan_s;
class WhatIf {
 public:
  // RunOptions::suppose is not read.
  WhatIf(const Scenario& scenario, const RunOptions& options);
  ~WhatIf();
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  // As run_scenario(), but for the peaks of memory. Good until the next is asked for.
  const Run& run(const Supposition& suppose);
  // The last run, with its peaks of memory.
  [[nodiscard]] Run take() &&;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

// A workload that no model of ours made, on a cluster. `engine` as in a scenario. What ranks do
// says nothing of the software around it: a scenario may, whose framework (kernels, memory), host,
// interference and settings of NCCL then hold; without one kernels take the profile's time, no
// host issues them, and the run says so.
struct WorkloadQuestion {
  std::string title;
  Workload workload;
  ClusterSpec cluster;
  std::string engine = "simgrid";
  std::optional<Scenario> software = {};
};
[[nodiscard]] Run run_workload(WorkloadQuestion question, const RunOptions& options);

// What the scenario's ranks do, before folding; stepwise collectives are expanded.
[[nodiscard]] Workload scenario_workload(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
