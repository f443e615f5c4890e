// The first value of the main line (simulate.cpp): a workload with everything that follows from it
// alone.
//
//    const Lowered lowered = lower_scenario(scenario, cluster);
//    lowered.workload->programs.size();   // distinct programs of ranks
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/lower/stage.hpp"
#include "models/plan.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/contention/isomorphic_placements.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/nccl/options.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A workload for GPUs of several kinds, in which every program and kernel belongs to one kind.
//
//    const Specialised special = specialise(workload, cluster);
//    load_cost_model(special.gpu_of_kernel[7])->cost(special.workload.kernels[7]);
struct Specialised {
  Workload workload = {};
  std::vector<std::string> gpu_of_kernel = {};  // GPU profile, by kernel
  std::vector<double> clock_of_kernel = {};     // over the full clock, by kernel
};

// Gives ranks of one program on GPUs of different kinds separate programs with copies of the
// kernels. A cluster of one kind leaves the workload as it is.
[[nodiscard]] Specialised specialise(Workload workload, const Cluster& cluster);

// Gives programs of stages with lower clocks separate kernels.
[[nodiscard]] Specialised with_stage_clocks(Specialised special, const PowerSettings& power);
// Returns the clock of the program's stage over the full one.
[[nodiscard]] double stage_clock(const PowerSettings& power, const Program& program);

// A workload as a simulation uses it, with everything that follows from it alone.
//
//    const Lowered lowered = lower_scenario(scenario, cluster);
//    lowered.workload->kernels[7];   // runs on lowered.gpu_of_kernel[7]
struct Lowered {
  std::shared_ptr<const Workload> workload;
  std::vector<std::string> gpu_of_kernel;  // GPU profile, by index into Workload::kernels
  std::vector<double> clock_of_kernel;     // over the full clock, by the same index
  std::vector<bool> used;                  // by kernel: whether a rank's program computes it
  bool dispatches_tokens = false;          // between experts
  std::vector<HostLane> hosts;             // by program; empty: issuing costs nothing
  std::vector<BlockCatalogue> books;       // the input of rearranged(); empty: none
  // Computed on first use, by any thread.
  std::shared_ptr<ProgramAnalysis> analysis;
  std::unique_ptr<EnginePrograms> known;

  // REQUIRES: the workload is valid (validate()).
  Lowered(Workload given, const Cluster& cluster);
  explicit Lowered(Specialised special);
  // The same workload with other arrangements of its programs' blocks.
  Lowered(const Lowered& other, std::vector<Program> programs);
};
// Estimates the bytes that the value holds.
[[nodiscard]] std::size_t footprint(const Lowered& lowered);

// Lowers a workload with the host of the scenario.
[[nodiscard]] Lowered lowered_for(const Scenario& scenario, Workload workload,
                                  const Cluster& cluster);
[[nodiscard]] Lowered lower_scenario(const Scenario& scenario, const Cluster& cluster);
// Returns the lowered scenario as another arrangement of the blocks of `known`, which differs in
// the number of microbatches only; nothing where the scenario needs other blocks.
[[nodiscard]] std::optional<Lowered> rearrange_scenario(const Scenario& scenario,
                                                        const Lowered& known);

// Expands the collectives of a workload message by message, if the scenario asks for it.
[[nodiscard]] Workload with_collective_model(const Scenario& scenario, Workload workload,
                                             const Cluster& cluster);
// Returns the programs of the scenario's ranks, before folding. Stepwise collectives are expanded.
[[nodiscard]] Workload scenario_workload(const Scenario& scenario, const Cluster& cluster);
// Returns the same for ranks on other GPUs: rank i is on the GPU (an index into Cluster::gpus()) of
// the entry that the scenario places it on. REQUIRES: as many entries as ranks.
[[nodiscard]] Workload placed_workload(const Scenario& scenario, const Cluster& cluster,
                                       std::span<const std::uint32_t> gpus);

[[nodiscard]] nccl::Options nccl_options(const CollectiveChoice& choice);

// A step to simulate: ranks on a cluster, and the software around them.
struct LoweredStep {
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Lowered> lowered = {};
  const Scenario* software = nullptr;  // null: not known
  std::string engine = {};
  // The placements on the cluster; null: the fold computes them.
  std::shared_ptr<IsomorphicPlacements> places = {};
};

// Determines the program of each rank. On a large cluster it computes the isomorphic placements,
// which folding needs, concurrently.
[[nodiscard]] LoweredStep lower_step(const Scenario& scenario,
                                     const std::shared_ptr<const Cluster>& cluster, Memo& memo);

}  // namespace trainyard
