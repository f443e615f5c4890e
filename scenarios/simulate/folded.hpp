// A workload on its cluster: who is interchangeable, and what carries each call.
#pragma once

#include <cstddef>
#include <vector>

#include "models/plan.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/fold/carriers.hpp"
#include "sim/fold/fold.hpp"
#include "sim/fold/fold_reasons.hpp"
#include "sim/nccl/options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct Folded {
  Partition partition;
  Carriers carriers;
  std::vector<Approximation> approximations;  // in what is known of NCCL there
  std::vector<ClassReason> reasons;           // why ranks are not of one class, if asked for
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Folded& folded);

struct FoldQuestion {
  CollectiveChoice collectives;
  bool fold = true;
  bool reasons = false;
  bool operator==(const FoldQuestion&) const = default;
};

// `places`: of this cluster; null: they are found. Throws InputError for a malformed profile
// of collectives and RefusedCall for an algorithm that cannot run in its group.
[[nodiscard]] Folded fold_workload(const Lowered& lowered, const Cluster& cluster,
                                   const FoldQuestion& question, AlikePlaces* places);

[[nodiscard]] nccl::Options nccl_options(const CollectiveChoice& choice);

}  // namespace trainyard
