// NVLS: the NVSwitch reads one place of all GPUs and adds, or writes one value to all of them.
//
// GPU h is the head of the h-th n-th of the buffer: it reads the sum of that part through the
// switch and writes it back to all. So each GPU's link carries, each way, the whole buffer once for
// the others and its own part once as head:
//
//   all_reduce     S(1 + 1/n) up and down          T >= (n+1)/n S/B
//   all_gather     S/n up, S down (its own part comes back too)
//   reduce_scatter S up, S/n down
//
// n = 8, S = 2^30, B = 370.8 GB/s: 3 257.711845 us, a bus rate of 576.8 GB/s
// (tests/sim/collectives/nvls_test.cpp). NVLSTree does the same within each node and runs a
// double binary tree over the nodes for every head's part. In the messages of both the switches are
// parties (nvls_messages.hpp).
//
//   const std::vector<Chain> chains = nvls_chains(place, CollectiveOp::AllReduce, 1e9);
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard::nccl {

// Why the switch cannot do it for this group, or nothing.
[[nodiscard]] std::optional<std::string> nvls_refusal(const GroupPlace& place);
[[nodiscard]] std::optional<std::string> nvls_tree_refusal(const GroupPlace& place);

// REQUIRES: no refusal. One chain: the switch moves all GPUs' parts in step.
[[nodiscard]] std::vector<Chain> nvls_chains(const GroupPlace& place, CollectiveOp op,
                                             double bytes);
// One chain for each head and tree.
[[nodiscard]] std::vector<Chain> nvls_tree_chains(const GroupPlace& place, double bytes);

// For the registry. Latency: the launch and one step within the node for each pass through the
// switch; NVLSTree adds 2 floor(log2 N) steps across.
[[nodiscard]] const CollectiveAlgorithm& nvls_all_reduce();
[[nodiscard]] const CollectiveAlgorithm& nvls_all_gather();
[[nodiscard]] const CollectiveAlgorithm& nvls_reduce_scatter();
[[nodiscard]] const CollectiveAlgorithm& nvls_tree_all_reduce();

}  // namespace trainyard::nccl
