// A server as NCCL sees it: the GPUs of one communicator on it, the links between them, and its
// NICs. Also the rates that remain on its wires while the graph search adds channels. Rates are in
// GB/s (1e9 bytes/s) of one direction.
//
//    NodeView h100{.sm = 90, .nvlink = 370.8, .pcie = 48.0};
//    h100.gpus.assign(8, {});  h100.nics.assign(8, {.rate = 50.0});   // or: see switched_node()
//    NodeLinks links(h100);
//    links.take({{&links.to_gpu(0, 1), 40.0}});   // all demands or, returning false, none
//    links.free_all();                            // for the next attempt
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/nccl/options.hpp"

namespace trainyard::nccl {

struct NodeGpu {
  std::uint32_t pcie_switch = 0;
  std::uint32_t socket = 0;
  bool operator==(const NodeGpu&) const = default;
};

struct NodeNic {
  double rate = 50.0;       // rate of the port: its speed in Mb/s / 8000
  double latency_us = 0.0;  // reported by the driver
  std::uint32_t pcie_switch = 0;
  std::uint32_t socket = 0;
  bool operator==(const NodeNic&) const = default;
};

struct NodeView {
  enum class ScaleUp : std::uint8_t { NvSwitch, FullMesh, None };
  std::uint32_t sm = 90;  // compute capability times 10
  CpuVendor cpu = CpuVendor::Intel;
  ScaleUp scale_up = ScaleUp::NvSwitch;
  double nvlink = 0.0;        // NCCL's rate from a GPU to the switch, or to one peer of a mesh
  double nvlink_wire = 0.0;   // NCCL's rate of one of the parallel links
  double nvlink_share = 1.0;  // real rate / NCCL's rate
  double pcie = 0.0;          // rate of a GPU, a NIC and a switch
  double socket = 0.0;        // from CPU to CPU
  bool nics_by_chip_to_chip = false;  // Grace: GPUs reach the host's NICs over C2C
  std::vector<NodeGpu> gpus = {};
  std::vector<NodeNic> nics = {};
  double nic_share = 1.0;  // real rate of a NIC / its nominal rate; the least of all NICs
  bool operator==(const NodeView&) const = default;
};

// The real rate of all NICs together: each carries an equal share, so the slowest sets the pace.
[[nodiscard]] double usable_nic_rate(const NodeView& node);
// The real rate of a GPU's NVLink to all its peers; 0 if there is none.
[[nodiscard]] double usable_nvlink_rate(const NodeView& node);

// The vendors' names in the data of this folder.
inline constexpr std::array<std::pair<CpuVendor, std::string_view>, 3> kCpuVendors{
    {{CpuVendor::Intel, "intel"}, {CpuVendor::Amd, "amd"}, {CpuVendor::Arm, "arm"}}};

// The NVLinks of a GPU generation, as NCCL counts them.
struct NvLinkFacts {
  double rate = 0.0;   // GB/s of one link; 0: unknown
  double links = 0.0;  // number of links of a GPU
};
[[nodiscard]] NvLinkFacts nvlink_facts(std::uint32_t sm);

// Properties for a node view that the cluster's links do not contain.
struct HostFacts {
  std::uint32_t sm = 0;
  NvLinkFacts nvlink = {};
  CpuVendor cpu = CpuVendor::Intel;
  bool cpu_is_known = true;  // false: the data do not contain the node type; Intel is assumed
};
// Looks up the names of the GPU and the node type (data/topology.json). Nothing for a GPU that is
// not NVIDIA's.
[[nodiscard]] std::optional<HostFacts> host_facts(const std::string& gpu, const std::string& node);

// How a device is connected to the host. Devices have numbers relative to the first GPU of their
// node.
struct HostPort {
  std::uint32_t pcie_switch = 0;  // the NIC if it has a direct link to the GPU
  std::optional<std::uint32_t> cpu = {};
  double pcie = 0.0;
  double socket = 0.0;  // rate from its CPU to another CPU of the server; 0 if there is none
  auto operator<=>(const HostPort&) const = default;
};

// NCCL reads this of one GPU: its kind, and what its links and those of its NIC carry. GPUs at one
// place of equal nodes have equal GpuLinks, and a node view depends only on those of its members.
struct GpuLinks {
  struct NvLink {
    std::optional<std::uint32_t> peer = {};  // nothing for an NVSwitch
    double rate = 0.0;
    std::uint32_t cables = 1;
    auto operator<=>(const NvLink&) const = default;
  };
  struct Nic {
    std::uint32_t number = 0;
    HostPort host = {};
    double rate = 0.0;   // nominal rate of all ports
    double share = 1.0;  // real rate / nominal rate
    auto operator<=>(const Nic&) const = default;
  };
  std::string profile = {};
  std::uint32_t number = 0;
  HostPort host = {};
  bool chip_to_chip = false;
  std::vector<NvLink> nvlinks = {};
  std::optional<Nic> nic = {};
  auto operator<=>(const GpuLinks&) const = default;
};
[[nodiscard]] GpuLinks gpu_links(const Topology& cluster, std::uint32_t gpu);

// The view of the node with these members. NCCL measures no rates. A NIC has its nominal rate,
// because NCCL reads the speed of the port. An NVLink has NCCL's fixed rate for the GPU's
// generation, whatever its real rate is; the slowest one represents all. A wire with one cable
// represents a set of parallel links that the cluster does not describe: all links that a GPU of
// this generation has, or an equal part of them for each peer.
enum class WithNics : bool { No, Yes };  // a group on one node uses none
[[nodiscard]] NodeView node_view(std::span<const GpuLinks* const> members, WithNics with_nics,
                                 const HostFacts& facts);
// The view of the first node among those with the fewest members.
[[nodiscard]] NodeView node_view(const PlacedGroup& placed, const HostFacts& facts);

// A node with g GPUs behind an NVSwitch and as many NICs (a rate of 0: no NICs), with `per_switch`
// pairs of GPU and NIC on each PCIe switch.
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

struct NodePath {
  PathType type = PathType::None;
  double rate = 0.0;                 // rate of its slowest wire, when no channel uses it
  std::vector<std::uint32_t> wires;  // directed wires; indices of NodeLinks
};

// A rate that a channel needs on every wire of a path.
struct Demand {
  const NodePath* path = nullptr;
  double rate = 0.0;
};

// The directed wires of a node and their remaining rates. Every channel takes its rate from each
// wire on its path.
class NodeLinks {
 public:
  explicit NodeLinks(const NodeView& node);

  // Paths are computed once; the references are valid during the lifetime of this object.
  [[nodiscard]] const NodePath& to_gpu(std::uint32_t from, std::uint32_t to) const;
  // The path over PCIe, or through the GPU next to the NIC (PXN) if that is nearer.
  [[nodiscard]] const NodePath& to_nic(std::uint32_t gpu, std::uint32_t nic) const;
  // The direct path: NCCL does not receive through another GPU.
  [[nodiscard]] const NodePath& from_nic(std::uint32_t nic, std::uint32_t gpu) const;
  [[nodiscard]] const NodePath& to_switch(std::uint32_t gpu) const;  // the NVSwitch
  [[nodiscard]] const NodePath& from_switch(std::uint32_t gpu) const;

  // The GPU nearest to a NIC, assigned in rotation if several are equally near.
  [[nodiscard]] std::uint32_t nearest_gpu_of(std::uint32_t nic) const {
    return nearest_gpu_by_nic_[nic];
  }

  // The highest rate of a single path from a GPU to another one, or to a NIC if there are NICs.
  [[nodiscard]] double best_rate() const;
  // The sum of a GPU's NVLink rates, or its PCIe rate if that is larger.
  [[nodiscard]] double total_rate() const;

  // Takes the rates of all demands. Returns false and takes nothing if a wire has too little left.
  bool take(const std::vector<Demand>& demands);
  // Returns all rates that were taken.
  void free_all() { left_ = rate_; }

 private:
  void number_wires();
  void find_paths();
  [[nodiscard]] NodePath between_gpus(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] NodePath path_to_nic(std::uint32_t gpu, std::uint32_t nic) const;
  [[nodiscard]] NodePath path_from_nic(std::uint32_t nic, std::uint32_t gpu) const;
  [[nodiscard]] std::vector<std::uint32_t> nearest_gpus(std::uint32_t nic) const;
  [[nodiscard]] std::uint32_t nearest_gpu(std::uint32_t nic) const;
  [[nodiscard]] NodePath path(PathType type, std::vector<std::uint32_t> wires) const;
  [[nodiscard]] NodePath over_pcie(std::uint32_t gpu, std::uint32_t nic) const;
  // Appends the wires between two PCIe switches, through the CPUs if these differ.
  void climb(std::vector<std::uint32_t>& wires, const NodeGpu& from, const NodeGpu& to) const;
  [[nodiscard]] PathType host_type(const NodeGpu& from, const NodeGpu& to) const;

  NodeView node_;
  std::vector<double> rate_;  // by wire
  std::vector<double> left_;
  std::vector<std::pair<std::uint32_t, double>> taken_;  // wires of the current take(), for undo
  std::vector<std::uint32_t> nearest_gpu_by_nic_;        // nearest GPU, by NIC
  std::vector<NodePath> peers_;                          // by GPU and GPU
  std::vector<NodePath> out_;                            // direct paths, by GPU and NIC
  std::vector<NodePath> to_nic_;                         // by GPU and NIC
  std::vector<NodePath> from_nic_;                       // by GPU and NIC
  std::vector<NodePath> switch_ways_;                    // by GPU: to the switch, from the switch
  // First wire of each kind. Wires of a device are stored as pairs (up, down) or (out, in).
  std::uint32_t nvlink_ = 0;
  std::uint32_t gpu_pcie_ = 0;
  std::uint32_t nic_pcie_ = 0;
  std::uint32_t port_ = 0;
  std::uint32_t switch_ = 0;
  std::uint32_t socket_ = 0;
  std::uint32_t sockets_ = 0;  // number of CPUs
};

}  // namespace trainyard::nccl
