// The fabric as a tree. A node of the tree is a set of switches that are wired parallel_count;
// their parallel links to the tier above are one edge up, and those back are one edge down.
//
// In a fat tree every leaf has one set of parallel links up to the spines of its pod, and the
// spines have one to the cores. Then there is one shortest way between two switches: up to the
// first node that they have in common, and down. Everything that is sent crosses all of it, with an
// equal share on each link of a set of parallel links. Two groups of GPUs whose switches are joined
// in isomorphic ways, by equal links, therefore have isomorphic routes.
//
//    FabricTree tree(cluster);
//    for (std::uint32_t at = tree.switch_of(gpu); at != kNone; at = tree.node(at).above)
//      use(tree.node(at).up);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class FabricTree {
 public:
  // The constructor reads the cluster and holds no reference to it.
  explicit FabricTree(const Cluster& cluster);

  // A set of switches that are wired parallel_count.
  struct Node {
    DeviceId device = 0;          // the lowest switch
    std::uint32_t above = kNone;  // node; kNone at the top
    // The sets of parallel links up and down, named by their lowest links.
    RouteHop up = {};
    RouteHop down = {};
    // A number: nodes of equal wiring have the same kind of switch and equal sets of parallel links
    // up and down.
    std::uint32_t wiring = 0;
  };
  [[nodiscard]] const Node& node(std::uint32_t index) const { return nodes_[index]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }

  // The node that the GPU's NIC is attached to by one cable, where everything from there to the top
  // belongs to a tree. kNone where it does not (several cables, a mesh, links that differ within a
  // tier) and where routing is not ideal.
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
  std::vector<bool> broken_;  // by node: it, or a node above it, is not part of a tree
  std::vector<std::uint32_t> node_of_device_;
  std::vector<std::uint32_t> switch_of_gpu_;
};

}  // namespace trainyard
