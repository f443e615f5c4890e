// The values that the stages of the main line (simulate.cpp) hand on: a workload with what follows
// from it alone, and the same folded on its cluster.
//
//   const Lowered lowered = lower_scenario(scenario, cluster);
//   const Folded folded = fold_workload(lowered, cluster, {}, nullptr, memo);
//   folded.partition.ranks.size();   // classes of ranks
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
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

// Steps on GPUs of several kinds: every program and kernel made one kind's own.
//
//   const Specialised special = specialise(workload, cluster);
//   load_cost_model(special.gpu_of_kernel[7])->cost(special.workload.kernels[7]);
struct Specialised {
  Workload workload = {};
  std::vector<std::string> gpu_of_kernel = {};  // the profile of the GPU on which each of them runs
};

// Ranks of one program that stand on GPUs of different kinds get programs of their own, whose
// kernels are copies. A cluster of one kind leaves the workload as it is.
[[nodiscard]] Specialised specialise(Workload workload, const Cluster& cluster);

// A workload as a simulation takes it, with what follows from it alone.
//
//   const Lowered lowered = lower_scenario(scenario, cluster);
//   lowered.workload->kernels[7];   // runs on lowered.gpu_of_kernel[7]
struct Lowered {
  std::shared_ptr<const Workload> workload;
  std::vector<std::string> gpu_of_kernel;  // its profile, by index into Workload::kernels
  std::vector<bool> used;                  // by kernel: whether a rank's program computes it
  bool dispatches_tokens = false;          // between experts
  std::vector<HostLane> hosts;             // by program; empty: issuing costs nothing
  std::vector<StageBook> books;            // as rearranged() wants them; empty: there are none
  // Found when first asked for, by any thread.
  std::shared_ptr<ProgramAnalysis> analysis;
  std::unique_ptr<EnginePrograms> known;

  // REQUIRES: the workload is valid (validate()).
  Lowered(Workload given, const Cluster& cluster);
  // The same with other arrangements of its programs' blocks.
  Lowered(const Lowered& other, std::vector<Program> programs);
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Lowered& lowered);

// The workload with the scenario's host to issue it.
[[nodiscard]] Lowered lowered_for(const Scenario& scenario, Workload workload,
                                  const Cluster& cluster);
[[nodiscard]] Lowered lower_scenario(const Scenario& scenario, const Cluster& cluster);
// The same as another arrangement of what was lowered for a scenario with another number of
// microbatches; nothing where that needs other blocks.
[[nodiscard]] std::optional<Lowered> rearrange_scenario(const Scenario& scenario,
                                                        const Lowered& known);

// Lowers what the scenario's ranks do, before folding; stepwise collectives are expanded.
[[nodiscard]] Workload scenario_workload(const Scenario& scenario, const Cluster& cluster);

// A workload on its cluster: who is interchangeable, and what carries each call.
struct Folded {
  Partition partition;
  SelectedAlgorithms selected_algorithms;
  std::vector<Approximation> approximations;  // in what is known of NCCL there
  std::vector<ClassReason> reasons;           // why ranks are not of one class, if asked for
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Folded& folded);

struct FoldQuestion {
  CollectiveChoice collectives = {};
  bool fold = true;
  bool reasons = false;
  bool operator==(const FoldQuestion&) const = default;
};

// `places`: of this cluster; null: they are found. The memo has what workloads and clusters alike
// gave. Throws InputError for a malformed profile of collectives and RefusedCall for an algorithm
// that cannot run in its group.
[[nodiscard]] Folded fold_workload(const Lowered& lowered, const Cluster& cluster,
                                   const FoldQuestion& question,
                                   std::shared_ptr<IsomorphicPlacements> places, Memo& memo);

[[nodiscard]] nccl::Options nccl_options(const CollectiveChoice& choice);

// Where what-ifs leave the wiring, they share it.
[[nodiscard]] std::shared_ptr<const Cluster> build_cluster(const ClusterSpec& spec,
                                                           const WhatIf& what_if, Memo& memo);

// A step to be simulated: ranks on a cluster, and the software around them.
struct LoweredStep {
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Lowered> lowered = {};
  const Scenario* software = nullptr;  // null: it is not known
  std::string engine = {};
  std::shared_ptr<IsomorphicPlacements> places = {};  // of the cluster; null: the fold finds them
};

// Says what each rank does. What folding needs of a large cluster alone is found meanwhile.
[[nodiscard]] LoweredStep lower_step(const Scenario& scenario,
                                     const std::shared_ptr<const Cluster>& cluster, Memo& memo);

// The step folded. `question` without collectives: the software says them.
[[nodiscard]] std::shared_ptr<const Folded> fold_step(const LoweredStep& step,
                                                      FoldQuestion question, Memo& memo);

// The partition with the rates of what-ifs on communication.
[[nodiscard]] std::shared_ptr<const Partition> partition_of(
    const std::shared_ptr<const Folded>& folded, const Workload& workload, const WhatIf& what_if);

}  // namespace trainyard
