// The values that the stages of the main line (simulate.cpp) pass on: a workload with everything
// that follows from it alone, and the same workload folded on its cluster.
//
//    const Lowered lowered = lower_scenario(scenario, cluster);
//    const Folded folded = fold_workload(lowered, cluster, {}, nullptr, memo);
//    folded.partition.ranks.size();   // classes of ranks
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
#include "scenarios/simulate/what_if.hpp"
#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/contention/isomorphic_placements.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/fold/fold.hpp"
#include "sim/fold/fold_reasons.hpp"
#include "sim/fold/selected_algorithms.hpp"
#include "sim/nccl/options.hpp"
#include "sim/report/run_view.hpp"
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

// Returns the programs of the scenario's ranks, before folding. Stepwise collectives are expanded.
[[nodiscard]] Workload scenario_workload(const Scenario& scenario, const Cluster& cluster);
// Returns the same for ranks on other GPUs: rank i is on the GPU (an index into Cluster::gpus()) of
// the entry that the scenario places it on. REQUIRES: as many entries as ranks.
[[nodiscard]] Workload placed_workload(const Scenario& scenario, const Cluster& cluster,
                                       std::span<const std::uint32_t> gpus);

// A workload folded on its cluster: the equivalence classes and the algorithm of each call.
struct Folded {
  Partition partition;
  SelectedAlgorithms selected_algorithms;
  std::vector<Approximation> approximations;  // in NCCL's data for this cluster
  std::vector<ClassReason> reasons;  // why ranks are not in one class; empty unless requested
};
// Estimates the bytes that the value holds.
[[nodiscard]] std::size_t footprint(const Folded& folded);

struct FoldRequest {
  CollectiveChoice collectives = {};
  bool fold = true;
  bool reasons = false;
  bool operator==(const FoldRequest&) const = default;
};

// `places` are the placements on this cluster; null: the function computes them. The memo provides
// the results of equal workloads and clusters. Throws InputError for a malformed profile of
// collectives, and RefusedCall for an algorithm that cannot run in its group.
[[nodiscard]] Folded fold_workload(const Lowered& lowered, const Cluster& cluster,
                                   const FoldRequest& question,
                                   std::shared_ptr<IsomorphicPlacements> places, Memo& memo);

[[nodiscard]] nccl::Options nccl_options(const CollectiveChoice& choice);

// Returns the cluster of a what-if. It shares the wiring with the original.
[[nodiscard]] std::shared_ptr<const Cluster> build_cluster(const ClusterSpec& spec,
                                                           const WhatIf& what_if, Memo& memo);

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

// Folds the step. The software provides the collectives of `question`.
[[nodiscard]] std::shared_ptr<const Folded> fold_step(const LoweredStep& step, FoldRequest question,
                                                      Memo& memo);

// Returns the partition, changed by the what-ifs on communication.
[[nodiscard]] std::shared_ptr<const Partition> partition_of(
    const std::shared_ptr<const Folded>& folded, const Workload& workload, const WhatIf& what_if);

}  // namespace trainyard
