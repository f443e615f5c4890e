// A workload as a simulation takes it, with what follows from it alone.
//
//   const Lowered lowered = lower_scenario(scenario, cluster);
//   lowered.workload->kernels[7];   // runs on lowered.gpu_of_kernel[7]
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/engine/known_programs.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Lowered {
  std::shared_ptr<const Workload> workload;
  std::vector<std::string> gpu_of_kernel;  // its profile, by index into Workload::kernels
  std::vector<bool> used;                  // by kernel: whether a rank's program computes it
  bool exchanges_rows = false;             // between experts
  std::vector<HostLane> hosts;             // by program; empty: issuing costs nothing
  // Found when first asked for, by any thread.
  std::unique_ptr<ProgramAnalysis> analysis;
  std::unique_ptr<KnownPrograms> known;

  // REQUIRES: the workload is valid (validate()).
  Lowered(Workload given, const Cluster& cluster);
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Lowered& lowered);

// The workload with the scenario's host to issue it.
[[nodiscard]] Lowered lowered_for(const Scenario& scenario, Workload workload,
                                  const Cluster& cluster);
[[nodiscard]] Lowered lower_scenario(const Scenario& scenario, const Cluster& cluster);

// Lowers what the scenario's ranks do, before folding; stepwise collectives are expanded.
[[nodiscard]] Workload scenario_workload(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
