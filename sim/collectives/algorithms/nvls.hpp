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
// double binary tree over the nodes for every head's part. In the messages of both the switches
// take part with group ranks of their own.
//
// The switch does not store, so a pass is one flow (switches.hpp). all_gather and reduce_scatter
// are one pass of each head's part, all at once, and take the fluid time. In all_reduce a part is
// read before it is written; chunks overlap the two. With C chunks of c = S/(nC) bytes on links of
// B bytes/s
//
//   T = 2 alpha + ((n+1) C + n - 1) c/B        fluid: 2 alpha + (n+1) C c/B
//
// which is longer by (n-1) c/B: the read of the first chunk and the write of the last, alone. There
// are nvls_chunks_most(n) chunks unless that makes them smaller than half a KiB (NCCL's are 128
// KiB, NVIDIA/nccl src/init.cc nvlsChunkSize; more of them cost nothing where only the first pays
// the latency). n = 8, S = 2^30, B = 370.8 GB/s: 1024 chunks, 2.47 us on 3 257.7 us, 0.08 %
// (tests/sim/collectives/switch_stepwise_test.cpp).
//
// NVLSTree reads, runs a double tree over the nodes for each head's part, and writes, chunk by
// chunk: with L levels of the tree and C chunks at most (2 L + 1)/C longer than the fluid form.
//
//   const std::vector<MultiLinkFlow> flows = nvls_flows(place, CollectiveOp::AllReduce, 1e9);
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard::nccl {

// Why the switch cannot do it for this group, or nothing.
[[nodiscard]] std::optional<std::string> nvls_refusal(const GroupPlace& place);
[[nodiscard]] std::optional<std::string> nvls_tree_refusal(const GroupPlace& place);

// REQUIRES: no refusal. One flow: the switch moves all GPUs' parts in step.
[[nodiscard]] std::vector<MultiLinkFlow> nvls_flows(const GroupPlace& place, CollectiveOp op,
                                                    double bytes);
// One flow for each head and tree.
[[nodiscard]] std::vector<MultiLinkFlow> nvls_tree_flows(const GroupPlace& place, double bytes);

// For the registry. Latency: the launch and one step within the node for each pass through the
// switch; NVLSTree adds 2 floor(log2 N) steps across.
[[nodiscard]] const CollectiveAlgorithm& nvls_all_reduce();
[[nodiscard]] const CollectiveAlgorithm& nvls_all_gather();
[[nodiscard]] const CollectiveAlgorithm& nvls_reduce_scatter();
[[nodiscard]] const CollectiveAlgorithm& nvls_tree_all_reduce();

// A power of two; the passes of all members stay below about 260 000 operations.
[[nodiscard]] std::uint32_t nvls_chunks_most(std::uint32_t ranks);
[[nodiscard]] std::uint32_t nvls_chunks(std::uint32_t ranks, Bytes bytes);

// Pieces: nvls_chunks_most() a rank for all_reduce, else one. REQUIRES: no refusal.
[[nodiscard]] std::vector<Message> nvls_messages(const GroupPlace& place, CollectiveOp op,
                                                 Bytes bytes);
// Chunks of a part of NVLSTree, by the members and edges that take part in each.
[[nodiscard]] std::uint32_t nvls_tree_chunks_most(const GroupPlace& place);
// Pieces: two parts a head, one for each tree, of nvls_tree_chunks_most() each.
[[nodiscard]] std::vector<Message> nvls_tree_messages(const GroupPlace& place, Bytes bytes);

}  // namespace trainyard::nccl
