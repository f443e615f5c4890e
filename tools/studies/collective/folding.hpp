// One call on one group, folded for many sizes at little more than the cost of one.
//
// Most algorithms put the same loads on the same links at every size, only more of them. So the
// sizes are cut into ranges over which the phases are alike but for the bytes (found by halving:
// alike at both ends is alike between), each range is folded once, at its largest size, and scaled.
// What NCCL tunes also changes its latency and its rate with the size. There the fold is kept and
// both are put in, as long as no link is asked for more than it has: then every chain moves at the
// rate of NCCL's model, whatever that is. Where a link would be full the size is folded by itself.
//
//   const std::vector<SizedFold> folds = folded_sizes(call, {4096, 1 << 20}, ...);
//   folds[1].partition;          // as fold() of a workload with the one call of 1 MiB
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/collectives/profile/profiled_transport.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The group's one call. `workload_of` makes the workload that is folded.
struct LoneCall {
  const Cluster& cluster;
  const ChosenTransport& transport;
  std::span<const std::uint32_t> gpus;
  Call call = {};  // its bytes are those of the sizes
  std::function<Workload(const Call&)> workload_of;
};

struct SizedFold {
  std::int64_t bytes = 0;
  Partition partition = {};
};

// In the order of the sizes. REQUIRES: sizes above zero.
[[nodiscard]] std::vector<SizedFold> folded_sizes(const LoneCall& lone,
                                                  std::span<const std::int64_t> sizes);

}  // namespace trainyard
