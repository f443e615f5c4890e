// How bandwidth of a collective is told so that algorithms and sizes of groups compare.
//
//   busbw = size / time * bus_bandwidth_factor(op, ranks)
//
// all_reduce 2(n-1)/n; reduce_scatter, all_gather, all_to_all (n-1)/n; others 1 (nccl-tests,
// doc/PERFORMANCE.md). 1 GiB all_reduced over 8 ranks in 5 ms: 214.7 GB/s x 1.75 = 375.8 GB/s
// (tests/sim/collectives/transport_test.cpp).
#pragma once

#include <cstdint>

#include "sim/workload/workload.hpp"

namespace trainyard {

// 1 for fewer than two ranks, where nothing moves.
[[nodiscard]] double bus_bandwidth_factor(CollectiveOp op, std::uint64_t ranks);

}  // namespace trainyard
