// What is left of a node's wires while channels are placed on it (rule: every channel takes its
// rate from each directed wire on its way).
//
//   NodeLinks links(node);
//   if (links.take({{&links.to_gpu(0, 1), 40.0}})) ...   // all or nothing
//   links.free_all();                                    // for the next attempt
#pragma once

#include <cstdint>
#include <vector>

#include "sim/nccl/node_view.hpp"

namespace trainyard::nccl {

struct NodePath {
  PathType type = PathType::None;
  double rate = 0.0;                 // of its slowest wire when nothing is taken
  std::vector<std::uint32_t> wires;  // directed; indices of NodeLinks
};

// A rate on every wire of a path.
struct Demand {
  const NodePath* path = nullptr;
  double rate = 0.0;
};

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
  // As if nothing had been taken.
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
