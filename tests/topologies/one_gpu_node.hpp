// A node of one GPU and one NIC: its number is that of its GPU, so fabrics can be counted by hand.
#pragma once

#include "tests/topologies/clusters.hpp"

namespace trainyard {

// 48.5 GB/s from NIC to fabric, 48 GB/s from GPU to NIC.
inline NodeSpec one_gpu_node() {
  NodeSpec node = load_node("dgx_h100");
  node.gpus = node.nics = node.gpus_per_cpu = node.gpus_per_pcie_switch = 1;
  return node;
}

inline ClusterSpec one_gpu_nodes(std::uint32_t nodes, FabricSpec fabric) {
  return {.node = one_gpu_node(), .nodes = nodes, .fabric = std::move(fabric)};
}

// Adds a flow of one byte to the load of every link, by link.
inline void add_flow(std::vector<double>& loads, const Route& route) {
  for (const RouteHop& hop : route) loads[hop.link] += hop.fraction;
}

}  // namespace trainyard
