// Says for each stage of the main line what it made, and how long it took.
//
//    StageReport report(options.stage);
//    const auto cluster = build_cluster(scenario.cluster, what_if, memo);
//    report.built(*cluster);   // "builds a cluster of 2 GPUs (3 devices, 4 links)", 0.0012
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/simulate/folded.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// Each function reports the stage that ends with its call. The stage began when the one before
// ended, or with the construction of the object. What the process knows already takes no time: the
// checks of a scenario build its cluster.
class StageReport {
 public:
  using Receiver = std::function<void(const std::string&, double)>;  // SimulateOptions::stage

  // Without a receiver nothing is counted or written. REQUIRES: the receiver lives longer.
  explicit StageReport(const Receiver& receiver) : receiver_(receiver) {}

  void built(const Cluster& cluster);
  void lowered(const Workload& workload);
  void folded(const Partition& partition);
  void priced(const std::vector<Cost>& kernels);
  void simulated(const Timeline& timeline);
  void found_figures();

 private:
  // `sentence` is called if there is a receiver.
  template <class Sentence>
  void ended(const Sentence& sentence);

  const Receiver& receiver_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trainyard
