// What the groups said to each other: one row per kind of group, operation, what carried it
// and group size. Calls of several sizes share a row where the same was chosen for them.
//
//   busbw = factor(op, n) * bytes / time,   2(n-1)/n for all_reduce, (n-1)/n for all_gather,
//   reduce_scatter and all_to_all, else 1   (nccl-tests, doc/PERFORMANCE.md).
// Worked: 2^30 bytes in 5 ms among 8: all_reduce 375.8 GB/s, all_gather 187.9 GB/s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"
#include "sim/workload/call.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct CollectiveSummary {
  GroupKind group = GroupKind::Other;
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string requested;           // the algorithm that was asked for: "nccl"
  Carrier carrier;                 // and what carried it: Ring, LL128, 24 channels
  std::uint64_t ranks = 0;         // of one group
  std::uint64_t count = 0;         // calls in the step, of all groups
  double bytes = 0.0;              // nccl-tests sizes of all calls, summed
  double time_s = 0.0;             // of all calls, from the moment the last member came
  double busbw_bytes_per_s = 0.0;  // factor * bytes / time_s; 0 when they took no time
  [[nodiscard]] double mean_time_s() const {
    return count == 0 ? 0.0 : time_s / static_cast<double>(count);
  }
};

// By kind of group, operation, label of the carrier, size of group.
[[nodiscard]] std::vector<CollectiveSummary> collective_summary(const RunView& view);

}  // namespace trainyard
