// Clusters from descriptions: a node type (data) repeated and joined by a fabric (registry).
//
//   ClusterSpec spec{.node = load_node("dgx_h100"), .nodes = 16, .fabric = {.kind = "rail_optimized"}};
//   Cluster cluster = build_cluster(spec);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/cluster.hpp"

namespace trainyard {

// One server. Rates are per direction. `usable` figures are what collectives reach, `nominal` as sold.
struct NodeSpec {
  std::string name;
  std::string gpu;                     // GPU profile (kernels/profiles)
  std::uint32_t gpus = 8;
  Bytes gpu_memory;
  enum class ScaleUp : std::uint8_t { NvSwitch, FullMesh, None } scale_up = ScaleUp::NvSwitch;
  BytesPerSecond nvlink;               // usable, of one GPU to the switch (NvSwitch) or to all peers (FullMesh)
  BytesPerSecond nvlink_nominal;
  std::uint32_t gpus_per_pcie_switch = 2;
  BytesPerSecond pcie;                 // usable, GPU or NIC to its switch
  BytesPerSecond pcie_nominal;
  std::uint32_t nics = 8;
  BytesPerSecond nic;                  // usable, of one NIC
  BytesPerSecond nic_nominal;
  Seconds nvlink_latency;              // one traversal of a wire
  Seconds pcie_latency;
  Seconds nic_latency;
  CollectiveLatency latency;           // of collective steps
  std::string source;                  // of the figures; every number's own source stands in the data file
};

struct FabricSpec {
  std::string kind = "single_switch";  // a name of the fabric registry
  std::uint32_t radix = 64;            // ports of a switch
  double oversubscription = 1.0;       // downlink / uplink capacity of a leaf
  double core_oversubscription = 1.0;  // the same one tier up (three-level)
  std::uint32_t nodes_per_unit = 32;   // rail_optimized: nodes under one set of rail leaves
  Seconds hop_latency{5e-7};           // one switch hop
};

struct ClusterSpec {
  NodeSpec node;
  std::uint32_t nodes = 1;
  FabricSpec fabric;
};

// By name from topologies/data, or a path ending in .json. Throws InputError.
[[nodiscard]] NodeSpec load_node(const std::string& name_or_path);
[[nodiscard]] std::vector<std::string> node_names();

// Throws InputError when the fabric cannot hold the nodes (pointer relative to the cluster object).
[[nodiscard]] Cluster build_cluster(const ClusterSpec& spec);

struct FabricEntry {
  std::string_view name;
  std::string_view summary;
};
// single_switch, rail_optimized, fat_tree (two levels), fat_tree3 (three levels).
[[nodiscard]] std::span<const FabricEntry> fabrics();

}  // namespace trainyard
