// Switches and cables of a fabric: the figures on a bill of material.
//
//   count_fabric(cluster).leaf_spine_cables;   // 16 leaves with 8 uplinks each: 128
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

}  // namespace trainyard
