// A server as NCCL sees it: the GPUs of one communicator on it, what joins them, and its NICs; and
// what is left of its wires while channels are placed on them. Rates are in GB/s (1e9 bytes/s) of
// one direction.
//
//   NodeView h100{.sm = 90, .nvlink = 370.8, .pcie = 48.0};
//   h100.gpus.assign(8, {});  h100.nics.assign(8, {.rate = 50.0});   // or: see switched_node()
//   NodeLinks links(h100);
//   if (links.take({{&links.to_gpu(0, 1), 40.0}})) ...   // all or nothing
//   links.free_all();                                    // for the next attempt
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  double rate = 50.0;       // the wire's, as its speed in Mb/s / 8000
  double latency_us = 0.0;  // as its driver tells
  std::uint32_t pcie_switch = 0;
  std::uint32_t socket = 0;
  bool operator==(const NodeNic&) const = default;
};

struct NodeView {
  enum class ScaleUp : std::uint8_t { NvSwitch, FullMesh, None };
  std::uint32_t sm = 90;  // compute capability times 10
  CpuVendor cpu = CpuVendor::Intel;
  ScaleUp scale_up = ScaleUp::NvSwitch;
  double nvlink = 0.0;        // from a GPU to the switch, or to one peer of a mesh, as counted
  double nvlink_wire = 0.0;   // one of the links bundled in it
  double nvlink_share = 1.0;  // the part of the counted rate that they carry
  double pcie = 0.0;          // for a GPU, a NIC and a switch
  double socket = 0.0;        // CPU to CPU
  bool nics_by_chip_to_chip = false;  // Grace: GPUs reach the host's NICs over C2C
  std::vector<NodeGpu> gpus = {};
  std::vector<NodeNic> nics = {};
  bool operator==(const NodeView&) const = default;
};

// Vendors by the names that the data of this folder give them.
inline constexpr std::array<std::pair<CpuVendor, std::string_view>, 3> kCpuVendors{
    {{CpuVendor::Intel, "intel"}, {CpuVendor::Amd, "amd"}, {CpuVendor::Arm, "arm"}}};

// The NVLinks of a GPU's generation, as NCCL counts them.
struct NvLinkFacts {
  double rate = 0.0;   // GB/s of a link; 0: unknown
  double links = 0.0;  // of a GPU
};
[[nodiscard]] NvLinkFacts nvlink_facts(std::uint32_t sm);

// The facts that a node view needs beyond the cluster's wires.
struct HostFacts {
  std::uint32_t sm = 0;
  NvLinkFacts nvlink = {};
  CpuVendor cpu = CpuVendor::Intel;
  bool cpu_is_known = true;  // false: no such node type in the data, taken for Intel
};
// By the names of the GPU and the node type (data/topology.json); nothing for a GPU that is not
// NVIDIA's.
[[nodiscard]] std::optional<HostFacts> host_facts(const std::string& gpu, const std::string& node);

// A node of a group as others of it are: its members, and how many NICs they send through.
struct NodeKind {
  std::vector<std::uint32_t> group_ranks = {};
  std::size_t nics = 0;  // 0 where the group stands on one node
};
// One of each kind among the nodes where the group has the fewest members: those with the fewest
// NICs first, as where one is dead.
[[nodiscard]] std::vector<NodeKind> node_kinds(const GroupPlace& place);

// NCCL measures nothing: NICs count with their nominal rate, because it reads the port's speed, and
// NVLinks with its own rate for the GPU's generation, whatever they carry. A wire of one link only
// stands for a set of parallel links that the cluster does not describe: all links that a GPU of
// the generation has, or as many of them for each peer.
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

struct NodePath {
  PathType type = PathType::None;
  double rate = 0.0;                 // its slowest wire has this when nothing is taken
  std::vector<std::uint32_t> wires;  // directed; indices of NodeLinks
};

// A rate on every wire of a path.
struct Demand {
  const NodePath* path = nullptr;
  double rate = 0.0;
};

// Every channel takes its rate from each directed wire on its way.
class NodeLinks {
 public:
  explicit NodeLinks(const NodeView& node);

  // Paths are worked out once; references hold as long as this does.
  [[nodiscard]] const NodePath& to_gpu(std::uint32_t from, std::uint32_t to) const;
  // The nearer of the way over PCIe and the way through the GPU beside the NIC (PXN).
  [[nodiscard]] const NodePath& to_nic(std::uint32_t gpu, std::uint32_t nic) const;
  // NCCL receives without detour.
  [[nodiscard]] const NodePath& from_nic(std::uint32_t nic, std::uint32_t gpu) const;
  [[nodiscard]] const NodePath& to_switch(std::uint32_t gpu) const;  // NVSwitch
  [[nodiscard]] const NodePath& from_switch(std::uint32_t gpu) const;

  // The GPU next to a NIC, dealt in turn where several are equally near.
  [[nodiscard]] std::uint32_t gpu_beside(std::uint32_t nic) const { return beside_[nic]; }

  // Best single path of any GPU to another one, or to a NIC where there are NICs.
  [[nodiscard]] double best_rate() const;
  // Sum of a GPU's NVLinks, or its PCIe rate where that is more.
  [[nodiscard]] double total_rate() const;

  // Takes all demands, or nothing where a wire has too little left.
  bool take(const std::vector<Demand>& demands);
  // Gives back all that was taken.
  void free_all() { left_ = rate_; }

 private:
  void number_wires();
  void find_paths();
  [[nodiscard]] NodePath between_gpus(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] NodePath way_out(std::uint32_t gpu, std::uint32_t nic) const;
  [[nodiscard]] NodePath way_back(std::uint32_t nic, std::uint32_t gpu) const;
  [[nodiscard]] std::uint32_t nearest_gpu(std::uint32_t nic) const;
  [[nodiscard]] NodePath path(PathType type, std::vector<std::uint32_t> wires) const;
  [[nodiscard]] NodePath over_pcie(std::uint32_t gpu, std::uint32_t nic) const;
  // Wires between two PCIe switches, over CPUs where they differ; appended.
  void climb(std::vector<std::uint32_t>& wires, const NodeGpu& from, const NodeGpu& to) const;
  [[nodiscard]] PathType host_type(const NodeGpu& from, const NodeGpu& to) const;

  NodeView node_;
  std::vector<double> rate_;  // by wire
  std::vector<double> left_;
  std::vector<std::pair<std::uint32_t, double>> taken_;  // by the demands looked at
  std::vector<std::uint32_t> beside_;                    // by NIC
  std::vector<NodePath> peers_;                          // by GPU and GPU
  std::vector<NodePath> out_;                            // by GPU and NIC, directly
  std::vector<NodePath> to_nic_;                         // by GPU and NIC
  std::vector<NodePath> from_nic_;                       // by GPU and NIC
  std::vector<NodePath> switch_ways_;                    // to it and from it, by GPU
  // First wire of each kind; pairs are (up, down) or (out, in).
  std::uint32_t nvlink_ = 0;
  std::uint32_t gpu_pcie_ = 0;
  std::uint32_t nic_pcie_ = 0;
  std::uint32_t port_ = 0;
  std::uint32_t switch_ = 0;
  std::uint32_t socket_ = 0;
  std::uint32_t sockets_ = 0;  // CPUs
};

}  // namespace trainyard::nccl
