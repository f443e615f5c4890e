#include "sim/collectives/algorithms/reduction_tree.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "sim/collectives/switch_routes.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

// Hops over switches of the fabric alone, by device; kFar where there is no way.
std::vector<std::uint32_t> hops_from(const Cluster& cluster, DeviceId start) {
  std::vector<std::uint32_t> hops(cluster.device_count(), kFar);
  std::vector<DeviceId> queue{start};
  hops[start] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const Link link : cluster.links_from(queue[next])) {
      if (!is_fabric_switch(cluster.device(link.to).kind) || hops[link.to] != kFar) continue;
      hops[link.to] = hops[queue[next]] + 1;
      queue.push_back(link.to);
    }
  }
  return hops;
}

// By device, the hops to the farthest of the leaves.
std::vector<std::uint32_t> farthest_leaf(const Cluster& cluster, const std::set<DeviceId>& leaves) {
  std::vector<std::uint32_t> farthest(cluster.device_count(), 0);
  for (const DeviceId leaf : leaves) {
    const std::vector<std::uint32_t> hops = hops_from(cluster, leaf);
    for (std::size_t device = 0; device < farthest.size(); ++device)
      farthest[device] = std::max(farthest[device], hops[device]);
  }
  return farthest;
}

// Climbs from a leaf to the root, on switches that are in the tree already where there is a choice.
void join(const Cluster& cluster, const std::vector<std::uint32_t>& to_root, DeviceId leaf,
          std::uint32_t turn, ReductionTree& tree) {
  for (DeviceId here = leaf; here != tree.root && !tree.parent.contains(here);) {
    std::vector<DeviceId> nearer;
    for (const Link link : cluster.links_from(here))
      if (is_fabric_switch(cluster.device(link.to).kind) && to_root[link.to] + 1 == to_root[here])
        nearer.push_back(link.to);
    std::sort(nearer.begin(), nearer.end());
    nearer.erase(std::unique(nearer.begin(), nearer.end()), nearer.end());
    const auto known = std::find_if(nearer.begin(), nearer.end(), [&](DeviceId up) {
      return up == tree.root || tree.parent.contains(up);
    });
    const DeviceId above = known != nearer.end() ? *known : nearer[turn % nearer.size()];
    tree.parent.emplace(here, above);
    here = above;
  }
}

}  // namespace

bool ReductionTree::holds(DeviceId device, std::size_t at) const {
  DeviceId here = leaf[at];
  while (here != device && here != root) here = parent.at(here);
  return here == device;
}

std::vector<DeviceId> ReductionTree::upwards() const {
  const auto height = [&](DeviceId device) {  // hops to the root
    std::size_t hops = 0;
    for (auto up = parent.find(device); up != parent.end(); up = parent.find(up->second)) ++hops;
    return hops;
  };
  std::vector<std::pair<std::size_t, DeviceId>> order{{0, root}};
  for (const auto& [device, above] : parent) order.emplace_back(height(device), device);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<DeviceId> switches;
  for (const auto& [hops, device] : order) switches.push_back(device);
  return switches;
}

std::optional<ReductionTree> reduction_tree(const GroupPlace& place,
                                            const std::vector<std::uint32_t>& roles,
                                            std::uint32_t turn) {
  const Cluster& cluster = place.cluster;
  const SwitchRoutes routes(place);
  ReductionTree tree;
  for (const std::uint32_t role : roles) {
    const std::vector<DeviceId> entries = routes.entries(role);
    if (entries.empty()) return {};
    tree.leaf.push_back(entries[turn % entries.size()]);
  }
  const std::set<DeviceId> leaves(tree.leaf.begin(), tree.leaf.end());
  const std::vector<std::uint32_t> farthest = farthest_leaf(cluster, leaves);
  std::uint32_t least = kFar;
  std::vector<DeviceId> roots;
  for (DeviceId device = 0; device < farthest.size(); ++device) {
    if (!is_fabric_switch(cluster.device(device).kind) || farthest[device] > least) continue;
    if (farthest[device] < least) roots.clear();
    least = farthest[device];
    roots.push_back(device);
  }
  if (least == kFar) return {};
  tree.root = roots[turn % roots.size()];
  const std::vector<std::uint32_t> to_root = hops_from(cluster, tree.root);
  for (const DeviceId leaf : leaves) join(cluster, to_root, leaf, turn, tree);
  return tree;
}

}  // namespace trainyard
