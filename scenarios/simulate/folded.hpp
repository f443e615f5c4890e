// The second value of the main line (simulate.cpp): a lowered workload folded on its cluster.
//
//    const Folded folded = fold_workload(lowered, cluster, {}, nullptr, memo);
//    folded.partition.ranks.size();   // classes of ranks
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "models/plan.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/contention/isomorphic_placements.hpp"
#include "sim/fold/fold.hpp"
#include "sim/fold/fold_reasons.hpp"
#include "sim/fold/selected_algorithms.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

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

// Folds the step. The software provides the collectives of `question`.
[[nodiscard]] std::shared_ptr<const Folded> fold_step(const LoweredStep& step, FoldRequest question,
                                                      Memo& memo);

}  // namespace trainyard
