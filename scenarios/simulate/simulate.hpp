// Simulates a scenario: the main function of Trainyard and of its C++ library.
//
//    const Scenario scenario = load_scenario("scenarios/first/two_gpus.json", {});
//    const Result result = simulate(scenario);
//    fmt::print("{}", summary_text(result.view()));
//
// What-ifs share a memo, which caches the results of stages that they do not change:
//
//    Memo memo;
//    for (double factor : {1.0, 2.0, 4.0})
//      simulate(scenario, {.what_if = {.network = factor}}, memo).timeline.makespan_s;
//
// simulate() changes only the memo and writes no files. Thread-safe, with one memo or several.
// SimGrid has one instance per process, so simulations whose transfers need it run one at a time.
// Throws InputError and RunError (sim/base/error.hpp), and Cancelled.
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
  bool contract = true;       // false: every operation has separate events
  bool interference = true;   // false: communication never slows computation
  bool fold_reasons = false;  // report why ranks are not in one class. REQUIRES: fold
  // False: only the step time, without its interval, its breakdown, the times of operations, memory
  // peaks, use of links, and the description of the scenario (RunFacts::setup and
  // RunFacts::scenario).
  bool figures = true;
  bool timing = false;  // record wall time and memory of the simulator in the facts
  std::function<void(double)> progress = {};  // receives the completed fraction from time to time
  // Receives each stage of the main line as it ends: "prices 12 kernels", and its wall time in
  // seconds. Stages that run at the same time call it from two threads.
  std::function<void(const std::string&, double)> stage = {};
  std::stop_token stop = {};  // a stop request ends the simulation soon, with Cancelled
  WhatIf what_if = {};        // changes with respect to the scenario
};

// A result owns everything that a RunView refers to; results of one memo share parts of it.
struct Result {
  RunFacts facts = {};
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Workload> workload = {};
  std::shared_ptr<const Partition> partition = {};
  std::shared_ptr<const SelectedAlgorithms> selected_algorithms = {};
  std::vector<ClassReason> fold_reasons = {};  // empty unless requested
  std::vector<Cost> kernel_costs = {};
  Timeline timeline = {};
  // The bytes that the software around the step holds throughout, by program and memory category.
  std::vector<std::vector<std::int64_t>> software_memory = {};
  std::vector<MemoryPeak> memory_peaks = {};  // by rank class; empty without software
  std::vector<Breakdown> breakdowns = {};     // by rank class; empty without figures
  std::optional<PowerRates> power = {};       // where the scenario has a block `power`

  [[nodiscard]] RunView view() const;
};

// A workload without a scenario, on a cluster. `engine` is as in a scenario. The workload does not
// determine the software around it. If `software` is given, its framework (kernels, memory), host,
// interference and NCCL settings apply. Otherwise kernels take the profile's time, no host issues
// them, and the result reports that.
struct WorkloadRun {
  std::string title;
  Workload workload;
  ClusterSpec cluster;
  std::string engine = "simgrid";
  std::optional<Scenario> software = {};
};

[[nodiscard]] Result simulate(const Scenario& scenario, const SimulateOptions& options, Memo& memo);
[[nodiscard]] Result simulate(const Scenario& scenario, const SimulateOptions& options = {});
[[nodiscard]] Result simulate(WorkloadRun question, const SimulateOptions& options = {});

}  // namespace trainyard
