// The fabric as a tree: switches wired alike are one, the set of parallel links of links to the
// tier above is one way up, and one leads down again.
//
// In a fat tree every leaf has one set of parallel links up to the spines of its pod, and they have
// one to the cores. Then between two switches there is one shortest way: up to the first they have
// in common and down. All of it is crossed by all that is sent, an equal share on each link of a
// set of parallel links. So two groups of GPUs whose switches are joined alike, by links alike,
// meet on equal ways.
//
//   FabricTree tree(cluster);
//   for (std::uint32_t at = tree.switch_of(gpu); at != kNone; at = tree.node(at).above) ...;
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class FabricTree {
 public:
  // The cluster is read here only.
  explicit FabricTree(const Cluster& cluster);

  // All switches that are wired alike.
  struct Node {
    DeviceId device = 0;          // the lowest of them
    std::uint32_t above = kNone;  // node; kNone at the top
    RouteHop up = {};  // the sets of parallel links to and from it, told by their lowest links
    RouteHop down = {};
    std::uint32_t wiring =
        0;  // equal where kind and both sets of parallel links are alike but for their place
  };
  [[nodiscard]] const Node& node(std::uint32_t index) const { return nodes_[index]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }

  // The node on which the GPU's NIC hangs with one cable, where all from there to the top is part
  // of a tree. kNone where it is not (several cables, a mesh, links that differ within a tier) and
  // where routing is not ideal.
  [[nodiscard]] std::uint32_t switch_of(std::uint32_t gpu) const { return switch_of_gpu_[gpu]; }

  // The node of a fabric switch; kNone for other devices.
  [[nodiscard]] std::uint32_t node_of(DeviceId device) const { return node_of_device_[device]; }

 private:
  void collect_nodes(const Cluster& cluster);
  void add_set(const Cluster& cluster, const Link& link);
  void find_broken();
  void number_wirings(const Cluster& cluster);
  void hang_gpus(const Cluster& cluster);

  std::vector<Node> nodes_;
  std::vector<bool> broken_;  // by node: it or one above is no part of a tree
  std::vector<std::uint32_t> node_of_device_;
  std::vector<std::uint32_t> switch_of_gpu_;
};

}  // namespace trainyard
