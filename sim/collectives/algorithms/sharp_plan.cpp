// The switches and heads that a SHARP collective uses on a group: reduction trees, the plan, and
// the reasons for a refusal.
#include <algorithm>
#include <limits>
#include <set>

#include "sim/collectives/algorithms/sharp.hpp"
#include "sim/collectives/switches.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

// Breadth-first search: by device, the number of hops over switches of the fabric; kFar if there is
// no path.
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

// Adds the path from a leaf to the root. Where several switches are one hop nearer to the root, it
// prefers one that already belongs to the tree, which keeps the tree small.
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

// Whether the device is on the path from a leaf to the root.
bool ReductionTree::holds(DeviceId device, std::size_t at) const {
  DeviceId here = leaf[at];
  while (here != device && here != root) here = parent.at(here);
  return here == device;
}

// The switches with children before parents: those with most hops to the root come first.
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

std::optional<ReductionTree> reduction_tree(const PlacedGroup& placed,
                                            const std::vector<std::uint32_t>& group_ranks,
                                            std::uint32_t turn) {
  const Cluster& cluster = placed.cluster;
  const SwitchRoutes routes(placed);
  ReductionTree tree;
  for (const std::uint32_t group_rank : group_ranks) {
    const std::vector<DeviceId> entries = routes.entries(group_rank);
    if (entries.empty()) return {};
    // A NIC may be cabled to several switches (planes); `turn` distributes the trees over them.
    tree.leaf.push_back(entries[turn % entries.size()]);
  }
  // The root minimises the distance to the farthest leaf, so that the tree is as low as possible.
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

// The first rank of each NIC, by its index in the node. Nothing if the nodes differ in these
// indices.
std::optional<std::vector<std::uint32_t>> sharp_heads(const PlacedGroup& placed,
                                                      const Placement& placement) {
  const SwitchRoutes routes(placed);
  std::optional<std::vector<std::uint32_t>> common;
  for (const std::vector<std::uint32_t>& group_ranks : placement.nodes) {
    std::set<DeviceId> seen;
    std::vector<std::uint32_t> heads;
    for (std::uint32_t i = 0; i < group_ranks.size(); ++i) {
      const std::optional<DeviceId> nic = routes.nic_of(group_ranks[i]);
      if (nic && seen.insert(*nic).second) heads.push_back(i);
    }
    if (heads.empty() || (common && *common != heads)) return {};
    common = std::move(heads);
  }
  return common;
}

namespace {

// By index in a node, the head that has the same NIC.
std::vector<std::uint32_t> heads_of(const PlacedGroup& placed,
                                    const std::vector<std::uint32_t>& group_ranks,
                                    const std::vector<std::uint32_t>& head_index) {
  const SwitchRoutes routes(placed);
  std::vector<std::uint32_t> heads;
  for (const std::uint32_t group_rank : group_ranks) {
    const auto same_nic = [&](std::uint32_t at) {
      return routes.nic_of(group_ranks[at]) == routes.nic_of(group_rank);
    };
    heads.push_back(static_cast<std::uint32_t>(std::ranges::find_if(head_index, same_nic) -
                                               head_index.begin()));
  }
  return heads;
}

}  // namespace

SharpPlan sharp_plan(const PlacedGroup& placed, InNode in_node) {
  SharpPlan plan;
  plan.placement = placement_of(placed);
  plan.head_index = sharp_heads(placed, plan.placement).value();
  plan.head_of = heads_of(placed, plan.placement.nodes.front(), plan.head_index);
  if (in_node == InNode::NvSwitch)
    for (const auto& group_ranks : plan.placement.nodes)
      plan.switches.push_back(nv_switch_of(placed, group_ranks).value());
  std::set<DeviceId> of_trees;
  for (std::uint32_t head = 0; head < plan.head_index.size(); ++head) {
    std::vector<std::uint32_t> group_ranks;
    for (const auto& node : plan.placement.nodes)
      group_ranks.push_back(node[plan.head_index[head]]);
    plan.trees.push_back(reduction_tree(placed, group_ranks, head).value());
    for (const DeviceId device : plan.trees.back().upwards()) of_trees.insert(device);
    plan.heads.push_back(std::move(group_ranks));
  }
  plan.switches.insert(plan.switches.end(), of_trees.begin(), of_trees.end());
  // The switches get the group ranks that follow those of the ranks.
  for (const DeviceId device : plan.switches)
    plan.group_ranks.emplace(
        device, static_cast<std::uint32_t>(placed.gpus.size() + plan.group_ranks.size()));
  return plan;
}

std::optional<std::string> sharp_refusal(const PlacedGroup& placed, InNode in_node) {
  if (!placed.cluster.facts().fabric_reduces)
    return "the switches of this fabric do not add (InfiniBand with SHARP does: say "
           "\"reduces\": true in the cluster's fabric)";
  const Placement placement = placement_of(placed);
  if (placement.nodes.size() < 2) return "the fabric's switches join nodes, here is one";
  if (auto reason = placement.uneven("it")) return reason;
  const auto heads = sharp_heads(placed, placement);
  if (!heads) return "it needs the same NICs used on every node";
  for (std::uint32_t head = 0; head < heads->size(); ++head) {
    std::vector<std::uint32_t> group_ranks;
    for (const auto& node : placement.nodes) group_ranks.push_back(node[(*heads)[head]]);
    if (!reduction_tree(placed, group_ranks, head))
      return "no switches of the fabric join the NICs of all nodes";
  }
  if (in_node == InNode::NvSwitch)
    for (const auto& group_ranks : placement.nodes)
      if (!nv_switch_of(placed, group_ranks))
        return "it needs two or more GPUs of every node behind an NVSwitch";
  return {};
}

}  // namespace trainyard
