// Which chains can meet on a link, because no rank keeps their calls from being concurrent.
//
// A rank that is a member of two groups makes their calls one after the other, by the order of its
// streams and dependencies (program_analysis.hpp). An operation ends for all members at once, so
// calls that one member has in order are never concurrent for anybody.
//
//   Concurrency found = find_concurrency(cluster, workload, joint, analysis, redundant, users);
//   found.meets[shape];
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// By shape; as the fields of LinkLimits of these names.
struct Concurrency {
  explicit Concurrency(std::size_t shapes);
  std::vector<double> rate_alone;
  std::vector<bool> meets;
  std::vector<bool> meets_others;
};

// Looks at the links that are not `redundant` (by link), and marks users that are contended.
[[nodiscard]] Concurrency find_concurrency(const Cluster& cluster, const Workload& workload,
                                           const JointGraph& joint, ProgramAnalysis& analysis,
                                           const std::vector<bool>& redundant, LinkUsers& users);

}  // namespace trainyard
