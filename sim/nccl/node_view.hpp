// A server as NCCL sees it: the GPUs of one communicator on it, what joins them, and its NICs.
// Rates in GB/s (1e9 bytes/s), one direction.
//
//   NodeView h100{.sm = 90, .nvlink = 370.8, .pcie = 48.0};
//   h100.gpus.assign(8, {});  h100.nics.assign(8, {.rate = 50.0});   // switches: see with_nics()
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/nccl/terms.hpp"

namespace trainyard::nccl {

struct NodeGpu {
  std::uint32_t pcie_switch = 0;
  std::uint32_t socket = 0;
};

struct NodeNic {
  double rate = 50.0;       // of the wire, as its speed in Mb/s / 8000
  double latency_us = 0.0;  // as its driver tells
  std::uint32_t pcie_switch = 0;
  std::uint32_t socket = 0;
};

struct NodeView {
  enum class ScaleUp : std::uint8_t { NvSwitch, FullMesh, None };
  std::uint32_t sm = 90;  // compute capability times 10
  CpuVendor cpu = CpuVendor::Intel;
  ScaleUp scale_up = ScaleUp::NvSwitch;
  double nvlink = 0.0;        // of a GPU to the switch, or to one peer of a mesh, as counted
  double nvlink_wire = 0.0;   // one of the links bundled in it
  double nvlink_share = 1.0;  // what they carry, as a part of what NCCL counts
  double pcie = 0.0;          // of a GPU, a NIC and a switch
  double socket = 0.0;        // CPU to CPU
  bool nics_by_chip_to_chip = false;  // Grace: GPUs reach the host's NICs over C2C
  std::vector<NodeGpu> gpus = {};
  std::vector<NodeNic> nics = {};
};

// As the data of this folder name them.
inline constexpr std::array<std::pair<CpuVendor, std::string_view>, 3> kCpuVendors{
    {{CpuVendor::Intel, "intel"}, {CpuVendor::Amd, "amd"}, {CpuVendor::Arm, "arm"}}};

// What a node view needs beyond the cluster's wires.
struct HostFacts {
  std::uint32_t sm = 0;
  CpuVendor cpu = CpuVendor::Intel;
  bool cpu_is_known = true;  // false: no such node type in the data, taken for Intel
};
// By the names of the GPU and the node type (data/topology.json); nothing for a GPU that is not
// NVIDIA's.
[[nodiscard]] std::optional<HostFacts> host_facts(const std::string& gpu, const std::string& node);

// A node of a group as others of it are: its members, and how many NICs they send through.
struct NodeKind {
  std::vector<std::uint32_t> roles = {};
  std::size_t nics = 0;  // 0 where the group stands on one node
};
// One of each kind among the nodes where the group has the fewest members: those with the fewest
// NICs first, as where one is dead.
[[nodiscard]] std::vector<NodeKind> node_kinds(const GroupPlace& place);

// NCCL measures nothing: NICs count with their nominal rate, because it reads the port's speed, and
// NVLinks with its own rate for the GPU's generation, whatever they carry. A wire of one link only
// stands for a bundle that the cluster does not describe: all links that a GPU of the generation
// has, or as many of them for each peer.
[[nodiscard]] NodeView node_view(const GroupPlace& place, const NodeKind& kind,
                                 const HostFacts& facts);
// The view of node_kinds(place).front().
[[nodiscard]] NodeView node_view(const GroupPlace& place, const HostFacts& facts);

// g GPUs behind an NVSwitch with as many NICs (0 GB/s: none), `per_switch` pairs to a PCIe switch.
struct SwitchedNode {
  std::uint32_t gpus = 8;
  std::uint32_t sm = 90;
  double nvlink = 370.8;
  std::uint32_t nvlinks = 18;
  double pcie = 48.0;
  double nic = 0.0;
  std::uint32_t per_switch = 1;
};
[[nodiscard]] NodeView switched_node(const SwitchedNode& shape);

}  // namespace trainyard::nccl
