// A scenario becomes a result: the main line of Trainyard, and its library.
//
//   const Scenario scenario = load_scenario("scenarios/first/two_gpus.json", {});
//   const Result result = simulate(scenario);
//   fmt::print("{}", summary_text(result.view()));
//
// What-ifs share a memo, which keeps what they do not change:
//
//   Memo memo;
//   for (double factor : {1.0, 2.0, 4.0})
//     simulate(scenario, {.what_if = {.network = factor}}, memo).timeline.makespan_s;
//
// simulate() changes nothing but the memo and writes nothing. Several threads may call it, with one
// memo or several; those whose transfers need SimGrid, of which a process has one, take turns. It
// throws InputError and RunError (sim/base/error.hpp), and Cancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/what_if.hpp"
#include "sim/base/memo.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct SimulateOptions {
  bool fold = true;           // false: every rank is simulated
  bool contract = true;       // false: every operation has events of its own
  bool interference = true;   // false: communication never slows computation
  bool fold_reasons = false;  // say why ranks are not of one class. REQUIRES: fold
  // false: the step time alone, without the times of operations, peaks of memory and use of links
  bool figures = true;
  bool breakdowns = false;  // Result::breakdowns are found beside the peaks of memory
  bool timing = false;      // wall time and memory of the run itself go into the facts
  std::function<void(double)> progress = {};  // is told the fraction done, now and then
  std::stop_token stop = {};                  // a stop ends the simulation soon by Cancelled
  WhatIf what_if = {};                        // what is not as the scenario says
};

// A result owns all that a RunView refers to; parts of it are shared with others of the same memo.
struct Result {
  RunFacts facts = {};
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Workload> workload = {};
  std::shared_ptr<const Partition> partition = {};
  std::shared_ptr<const SelectedAlgorithms> selected_algorithms = {};
  std::vector<ClassReason> fold_reasons = {};  // where they were asked for
  std::vector<Cost> kernel_costs = {};
  Timeline timeline = {};
  // By program and memory category: what the software around the step holds throughout.
  std::vector<std::vector<std::int64_t>> software_memory = {};
  std::vector<MemoryPeak> memory_peaks =
      {};                                  // by rank class; empty for a workload that is not ours
  std::vector<Breakdown> breakdowns = {};  // by rank class, where they were asked for

  [[nodiscard]] RunView view() const;
};

// A workload that no model of ours made, on a cluster. `engine` as in a scenario. What ranks do
// says nothing of the software around it: a scenario may, whose framework (kernels, memory), host,
// interference and settings of NCCL then hold; without one kernels take the profile's time, no
// host issues them, and the result says so.
struct WorkloadQuestion {
  std::string title;
  Workload workload;
  ClusterSpec cluster;
  std::string engine = "simgrid";
  std::optional<Scenario> software = {};
};

[[nodiscard]] Result simulate(const Scenario& scenario, const SimulateOptions& options, Memo& memo);
[[nodiscard]] Result simulate(const Scenario& scenario, const SimulateOptions& options = {});
[[nodiscard]] Result simulate(WorkloadQuestion question, const SimulateOptions& options = {});

}  // namespace trainyard
