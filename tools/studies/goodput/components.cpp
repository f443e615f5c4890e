#include "tools/studies/goodput/components.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sim/cluster/fabric_figures.hpp"

namespace trainyard {

namespace {

double cables(const FabricCount& count) {
  return static_cast<double>(count.node_cables) + count.leaf_spine_cables +
         count.spine_core_cables + count.local_cables + count.global_cables;
}

// The most nodes that one leaf joins, each once however many of its NICs have a port there. A leaf
// of a rail-optimised fabric joins one NIC of each node of its unit.
std::int64_t nodes_below_a_leaf(const Cluster& cluster) {
  std::map<DeviceId, std::set<std::int32_t>> nodes;
  for (const Link& link : cluster.links()) {
    const Device& from = cluster.device(link.from);
    if (link.kind == LinkKind::NicPort && from.kind == DeviceKind::Nic)
      nodes[link.to].insert(from.node);
  }
  std::size_t most = 1;
  for (const auto& [leaf, below] : nodes) most = std::max(most, below.size());
  return static_cast<std::int64_t>(most);
}

}  // namespace

double component_count(const ClusterSpec& cluster, FailingComponent component,
                       std::int64_t nodes_per_rack) {
  switch (component) {
    case FailingComponent::Gpu:
      return gpu_count(cluster);
    case FailingComponent::Nic:
      return static_cast<double>(cluster.nodes) * cluster.node.nics;
    case FailingComponent::Cable:
      return cables(count_fabric(*shared_cluster(cluster)));
    case FailingComponent::Leaf:
      return count_fabric(*shared_cluster(cluster)).leaves;
    case FailingComponent::Spine:
      return count_fabric(*shared_cluster(cluster)).spines;
    case FailingComponent::Node:
      return cluster.nodes;
    case FailingComponent::Rack:
      // A fraction is fine: the count only multiplies a rate.
      return static_cast<double>(cluster.nodes) / static_cast<double>(nodes_per_rack);
    case FailingComponent::Storage:
    case FailingComponent::Job:
      break;
  }
  return 1.0;
}

std::int64_t nodes_of_component(const ClusterSpec& cluster, FailingComponent component,
                                std::int64_t nodes_per_rack) {
  if (component == FailingComponent::Rack) return nodes_per_rack;
  if (component == FailingComponent::Leaf) return nodes_below_a_leaf(*shared_cluster(cluster));
  return 1;
}

}  // namespace trainyard
