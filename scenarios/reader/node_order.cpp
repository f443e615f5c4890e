#include "scenarios/reader/node_order.hpp"

#include <algorithm>

namespace trainyard {

namespace {

// The name of the kind of every node.
std::vector<std::string> kind_of_nodes(const ClusterSpec& cluster) {
  std::vector<std::string> kinds(cluster.nodes, cluster.node.name);
  for (const OtherNodes& others : cluster.others)
    for (const std::uint32_t node : others.nodes)
      if (node < kinds.size()) kinds[node] = others.node.name;
  return kinds;
}

}  // namespace

std::vector<std::string> node_kinds(const ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (const std::string& name : kind_of_nodes(cluster))
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::vector<std::int64_t> placement_by_nodes(const ClusterSpec& cluster,
                                             std::span<const std::string> order) {
  const std::vector<std::string> kinds = kind_of_nodes(cluster);
  const std::int64_t gpus = cluster.node.gpus;
  std::vector<std::int64_t> placement;
  for (const std::string& kind : order) {
    for (std::size_t node = 0; node < kinds.size(); ++node) {
      if (kinds[node] != kind) continue;
      for (std::int64_t gpu = 0; gpu < gpus; ++gpu)
        placement.push_back(static_cast<std::int64_t>(node) * gpus + gpu);
    }
  }
  if (std::ranges::is_sorted(placement)) placement.clear();
  return placement;
}

}  // namespace trainyard
