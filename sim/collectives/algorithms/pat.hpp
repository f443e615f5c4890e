// PAT (parallel aggregated trees): all_gather and reduce_scatter in ceil(log2 n) steps.
//
// The block of rank r reaches rank r + d by the binary digits of d, the largest first: in the step
// of bit b every rank passes on to the one 2^b further what it holds. Far steps carry few blocks,
// near ones many. reduce_scatter is the same backwards, adding. Each rank sends n - 1 blocks in
// all:
//
//   T = ceil(log2 n) alpha + (n-1)/n S/B
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 410.240960 us
// (tests/sim/collectives/pat_test.cpp). NCCL does this for one rank a node. Source: NVIDIA, "PAT: a
// new algorithm for all-gather and reduce-scatter operations at scale" (2025).
//
//   for (const PatSend& send : pat_sends(8))
//     use(send.distance, send.blocks);         // 4 x 1, 2 x 2, 1 x 4
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard::nccl {

// One step of every rank in all_gather.
struct PatSend {
  std::uint32_t distance = 1;
  std::uint32_t blocks = 1;
};
[[nodiscard]] std::vector<PatSend> pat_sends(std::uint32_t ranks);

[[nodiscard]] const CollectiveAlgorithm& pat_all_gather();
[[nodiscard]] const CollectiveAlgorithm& pat_reduce_scatter();

// All steps at once, a flow per sender, for a model that has the latency by itself.
[[nodiscard]] std::vector<MultiLinkFlow> pat_flows(const GroupPlace& place, CollectiveOp op,
                                                   double bytes);

}  // namespace trainyard::nccl
