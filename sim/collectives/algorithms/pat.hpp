// PAT (parallel aggregated trees): all_gather and reduce_scatter in ceil(log2 n) steps.
//
// The block of rank r reaches rank r + d along the binary digits of d, the largest first: in the
// step of bit b every rank sends the blocks that it holds to the rank at distance 2^b. Steps over
// large distances carry few blocks, steps over small distances many. reduce_scatter runs the same
// steps in reverse order and adds. Each rank sends n - 1 blocks in total:
//
//    T = ceil(log2 n) alpha + (n-1)/n S/B
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: 9 410.240960 us
// (tests/sim/collectives/pat_test.cpp). NCCL uses PAT for one rank per node. Source: NVIDIA, "PAT:
// a new algorithm for all-gather and reduce-scatter operations at scale" (2025).
//
//    for (const PatSend& send : pat_sends(8))
//      use(send.distance, send.blocks);         // 4 x 1, 2 x 2, 1 x 4
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard::nccl {

// One step of every rank in all_gather: the distance to the receiver, and the number of blocks
// sent.
struct PatSend {
  std::uint32_t distance = 1;
  std::uint32_t blocks = 1;
};
[[nodiscard]] std::vector<PatSend> pat_sends(std::uint32_t ranks);

[[nodiscard]] const CollectiveAlgorithm& pat_all_gather();
[[nodiscard]] const CollectiveAlgorithm& pat_reduce_scatter();

// All steps together, one flow per sender, for a model that computes the latency separately.
[[nodiscard]] std::vector<MultiLinkFlow> pat_flows(const PlacedGroup& placed, CollectiveOp op,
                                                   double bytes);

}  // namespace trainyard::nccl
