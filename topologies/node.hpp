// The inside of a server: GPUs, their scale-up network, PCIe switches, CPUs and NICs.
//
//    const DrawnNode node = draw_node(load_node("dgx_h100"));
//    // 8 GPUs, 1 NVSwitch plane, 8 PCIe switches, 8 NICs, 2 CPUs
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/base/json_reader.hpp"
#include "sim/cluster/blueprint.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Reads a node description (topologies/data/*.json has the format). Problems are reported to the
// object's file.
[[nodiscard]] NodeSpec read_node(JsonObject object, std::string name);
[[nodiscard]] nlohmann::ordered_json to_json(const NodeSpec& node);
// Replaces the rates of a node's NICs: {"usable": "97 GB/s", "nominal": "100 GB/s"}, and "latency"
// where that differs too.
void change_nics(JsonObject object, NodeSpec& node);

// Returns the node with its first `gpus` GPUs and the NICs, PCIe switches and CPUs that belong to
// them. REQUIRES: 1 <= gpus <= node.gpus.
[[nodiscard]] NodeSpec part_of(NodeSpec node, std::uint32_t gpus);

// Returns the description of a node by number, from `others` where it is listed there.
[[nodiscard]] const NodeSpec& node_at(const ClusterSpec& spec, std::uint32_t number);
// Returns the kind of a GPU of the node, by local index.
[[nodiscard]] GpuKind gpu_kind(const NodeSpec& node, std::uint32_t gpu);
// Empties mixed_gpus where all its entries equal the cluster's usual GPU.
void clear_if_uniform(ClusterFacts& facts);

// A separate drawing of one node, to be stamped into other drawings, and its GPUs and NICs.
struct DrawnNode {
  Wiring wiring;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
};
[[nodiscard]] DrawnNode draw_node(const NodeSpec& node);

// Returns the NIC of a GPU, by local index. Consecutive GPUs share a NIC where there are fewer NICs
// than GPUs. REQUIRES: nics > 0 and a divisor of gpus.
[[nodiscard]] inline std::uint32_t nic_index(const NodeSpec& node, std::uint32_t gpu) {
  return gpu / (node.gpus / node.nics);
}

}  // namespace trainyard
