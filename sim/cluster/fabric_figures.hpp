// Summary figures of a fabric, as on a bill of materials: its switches and cables, and the
// bandwidth between the two halves of the cluster.
//
//    count_fabric(cluster).leaf_spine_cables;   // 16 leaves with 8 uplinks each: 128
//    bisection_bandwidth(cluster);              // two DGX H100: 8 x 48 GB/s = 384 GB/s
#pragma once

#include <cstdint>

#include "sim/cluster/cluster.hpp"

namespace trainyard {

struct FabricCount {
  std::uint32_t leaves = 0;
  std::uint32_t spines = 0;
  std::uint32_t cores = 0;
  std::uint32_t node_cables = 0;  // NIC to leaf
  std::uint32_t leaf_spine_cables = 0;
  std::uint32_t spine_core_cables = 0;
  std::uint32_t local_cables = 0;   // between neighbours of one tier
  std::uint32_t global_cables = 0;  // between dragonfly groups
};
[[nodiscard]] FabricCount count_fabric(const Cluster& cluster);

// Returns the minimum cut, in one direction, between the GPUs of the first half of the nodes (of
// the GPUs, if there is one node) and the others. It is computed as a maximum flow over usable
// capacities. Zero for one GPU. The halves follow the node order, so units and pods stay whole. In
// a symmetric fabric this is the true bisection.
[[nodiscard]] BytesPerSecond bisection_bandwidth(const Cluster& cluster);

}  // namespace trainyard
