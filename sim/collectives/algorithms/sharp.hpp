// SHARP: the fabric's switches add. Each node has one head per NIC; every head's part of the buffer
// goes up a tree of switches, which add what arrives, and comes down again.
//
// With h heads per node a NIC sends S/h and receives S/h, where a ring sends 2 (N-1)/N S/h
// (NVIDIA/nccl src/graph/tuning.cc, CollNet). "sharp" adds and gathers inside the node by direct
// exchange as CollNetDirect does, "nvls_sharp" by the NVSwitch:
//
//   sharp        2 (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//   nvls_sharp   2 a_i + a_e + max((h+1)/h S/B_i, S/(h B_e))
//
// reduce_scatter and all_gather are half an all_reduce in the node and one direction of the trees:
// every head sends its S/h up, where the switches add, and gets back what its node's ranks own; or
// sends those up, and the switches copy (multicast) to all other nodes.
//
//   reduce_scatter  (g-1) (a_i + S/(h B_i)) + a_e + S/(h B_e)
//   all_gather      (g-1) (a_i + S/(h B_i)) + a_e + (N-1)/N S/(h B_e)
//
// g ranks on each node, h = g of them heads; a the step latencies, B the rates of NVLink (i) and
// NIC (e). 4 nodes of 8, S = 2^30, B_i = 370.8 and B_e = 48.5 GB/s without latency: sharp
// 14 x 361.97 us + 2 767.38 us = 7 834.93 us, nvls_sharp 3 257.71 us
// (tests/sim/collectives/sharp_test.cpp). a_e is that of the farthest two heads (hop_latency).
//
//   const std::vector<Chain> chains = sharp_chains(place, InNode::Direct, 1e9);
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

enum class InNode : std::uint8_t { Direct, NvSwitch };

// Why the fabric cannot do it for this group, with what to do, or nothing.
[[nodiscard]] std::optional<std::string> sharp_refusal(const GroupPlace& place, InNode in_node);

// All that an all_reduce puts on links. REQUIRES: no refusal.
[[nodiscard]] std::vector<Chain> sharp_chains(const GroupPlace& place, InNode in_node,
                                              double bytes);

}  // namespace trainyard
