// NVLS (NVLink SHARP): the NVSwitch reads the same address of all GPUs and adds the values, or
// writes one value to all GPUs.
//
// GPU h is the head of the h-th n-th of the buffer: it reads the sum of that part through the
// switch and writes it back to all GPUs. Each GPU's link therefore carries, in each direction, the
// whole buffer once for the others and its own part once as head:
//
//    all_reduce     S(1 + 1/n) up and down          T >= (n+1)/n S/B
//    all_gather     S/n up, S down (its own part comes back too)
//    reduce_scatter S up, S/n down
//
// n = 8, S = 2^30, B = 370.8 GB/s: 3 257.711845 us, a bus bandwidth of 576.8 GB/s
// (tests/sim/collectives/nvls_test.cpp). NVLSTree does the same within each node and runs a double
// binary tree over the nodes for the part of every head. In the messages of both algorithms the
// switches take part and have group ranks.
//
// The switch has no memory, so a pass is one flow (switches.hpp). all_gather and reduce_scatter
// consist of one pass per head's part, all at once, and take the fluid time. In all_reduce a part
// is read before it is written, and chunks overlap reading and writing. With C chunks of c = S/(nC)
// bytes on links of B bytes/s
//
//    T = 2 alpha + ((n+1) C + n - 1) c/B        fluid: 2 alpha + (n+1) C c/B
//
// The difference of (n-1) c/B is the read of the first chunk and the write of the last one, which
// overlap with nothing. There are nvls_chunks_most(n) chunks, unless they would be smaller than 4
// KiB (NCCL's chunks have 128 KiB, NVIDIA/nccl src/init.cc nvlsChunkSize; more chunks cost nothing
// here, because only the first one pays the latency). n = 8, S = 2^30, B = 370.8 GB/s: 1024 chunks,
// 2.47 us of 3 257.7 us, 0.08 % (tests/sim/collectives/switch_stepwise_test.cpp).
//
// NVLSTree reads, runs a double tree over the nodes for the part of each head, and writes, chunk by
// chunk. With L levels of the tree and C chunks it takes at most (2 L + 1)/C longer than the fluid
// form.
//
//    const std::vector<MultiLinkFlow> flows = nvls_flows(placed, CollectiveOp::AllReduce, 1e9);
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard::nccl {

// The reason why NVLS cannot run on this group, or nothing.
[[nodiscard]] std::optional<std::string> nvls_refusal(const PlacedGroup& placed);
[[nodiscard]] std::optional<std::string> nvls_tree_refusal(const PlacedGroup& placed);

// REQUIRES: no refusal. The result is one flow, because the switch processes the parts of all GPUs
// in lockstep.
[[nodiscard]] std::vector<MultiLinkFlow> nvls_flows(const PlacedGroup& placed, CollectiveOp op,
                                                    double bytes);
// One flow for each head and tree.
[[nodiscard]] std::vector<MultiLinkFlow> nvls_tree_flows(const PlacedGroup& placed, double bytes);

// The registered algorithms. Latency: the launch, and one step within the node for each pass
// through the switch; NVLSTree adds 2 floor(log2 N) steps across nodes.
[[nodiscard]] const CollectiveAlgorithm& nvls_all_reduce();
[[nodiscard]] const CollectiveAlgorithm& nvls_all_gather();
[[nodiscard]] const CollectiveAlgorithm& nvls_reduce_scatter();
[[nodiscard]] const CollectiveAlgorithm& nvls_tree_all_reduce();

// The largest number of chunks, a power of two. The passes of all members have fewer than about 260
// 000 operations.
[[nodiscard]] std::uint32_t nvls_chunks_most(std::uint32_t ranks);
[[nodiscard]] std::uint32_t nvls_chunks(std::uint32_t ranks, Bytes bytes);

// The messages of NVLS. Pieces: nvls_chunks_most() per rank for all_reduce, otherwise one per rank.
// REQUIRES: no refusal.
[[nodiscard]] std::vector<Message> nvls_messages(const PlacedGroup& placed, CollectiveOp op,
                                                 Bytes bytes);
// The largest number of chunks of a part of NVLSTree. It bounds the number of messages of all
// members and edges.
[[nodiscard]] std::uint32_t nvls_tree_chunks_most(const PlacedGroup& placed);
// The messages of NVLSTree. Pieces: two parts per head, one for each tree, of
// nvls_tree_chunks_most() pieces each.
[[nodiscard]] std::vector<Message> nvls_tree_messages(const PlacedGroup& placed, Bytes bytes);

}  // namespace trainyard::nccl
