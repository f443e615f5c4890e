// The inside of a server: GPUs, their scale-up network, PCIe switches, CPUs and NICs.
//
//   const DrawnNode node = draw_node(load_node("dgx_h100"));   // 8 GPUs, 1 NVSwitch plane, 8 PCIe
//                                                             // switches, 8 NICs, 2 CPUs
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/base/json_reader.hpp"
#include "sim/cluster/blueprint.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Reads a node description (topologies/data/*.json is the format). Problems go to the object's
// file.
[[nodiscard]] NodeSpec read_node(JsonObject object, std::string name);
[[nodiscard]] nlohmann::ordered_json to_json(const NodeSpec& node);
// Other NICs in the places of a node's: {"usable": "97 GB/s", "nominal": "100 GB/s"}, and "latency"
// where that differs too.
void change_nics(JsonObject object, NodeSpec& node);

// The node with its first `gpus` GPUs and what belongs to them of NICs, PCIe switches and CPUs.
// REQUIRES: 1 <= gpus <= node.gpus.
[[nodiscard]] NodeSpec part_of(NodeSpec node, std::uint32_t gpus);

// The kind of a GPU of the node, by local index.
[[nodiscard]] GpuKind gpu_kind(const NodeSpec& node, std::uint32_t gpu);
// Empties mixed_gpus where they all are what the cluster says of every GPU.
void forget_if_alike(ClusterFacts& facts);

// A node by itself, to be stamped into drawings, and which of its devices are GPUs and NICs.
struct DrawnNode {
  Wiring wiring;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
};
[[nodiscard]] DrawnNode draw_node(const NodeSpec& node);

// The NIC of a GPU, by local index: NICs are dealt to the GPUs in order, several GPUs sharing one
// where there are fewer. REQUIRES: nics > 0 and a divisor of gpus.
[[nodiscard]] inline std::uint32_t nic_index(const NodeSpec& node, std::uint32_t gpu) {
  return gpu / (node.gpus / node.nics);
}

}  // namespace trainyard
