#include "sim/contention/fabric_tree.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace trainyard {

namespace {

// The cables between a NIC and its switch.
struct Cable {
  // Number of cables that lead out of the node, and of those from switches to it.
  std::uint32_t up = 0;
  std::uint32_t down = 0;
  DeviceId upper = 0;  // the last switch of each
  DeviceId downer = 0;
};

}  // namespace

FabricTree::FabricTree(const Cluster& cluster)
    : node_of_device_(cluster.device_count(), kNone), switch_of_gpu_(cluster.gpus().size(), kNone) {
  // Only ideal routing loads parallel links equally.
  if (cluster.facts().routing.kind != Routing::Kind::Ideal || cluster.nic_of_gpu().empty()) return;
  collect_nodes(cluster);
  find_broken();
  number_wirings(cluster);
  hang_gpus(cluster);
}

void FabricTree::collect_nodes(const Cluster& cluster) {
  // Switches of the fabric belong to no run of nodes, so they come after all runs.
  for (DeviceId device = cluster.wiring().runs_end(); device < node_of_device_.size(); ++device) {
    if (!is_fabric_switch(cluster.device(device).kind)) continue;
    const DeviceId lowest = cluster.router().parallel_links().lowest_equivalent(device);
    if (lowest == device) {
      node_of_device_[device] = size();
      nodes_.push_back({.device = device, .up = {.link = kNoLink}, .down = {.link = kNoLink}});
    } else {
      node_of_device_[device] = node_of_device_[lowest];
    }
  }
  broken_.assign(nodes_.size(), false);
  // Equivalent switches have the same sets of parallel links, so those of the lowest switch are
  // enough. A set is added once, for its lowest link.
  for (const Node& node : nodes_)
    for (const Link& link : cluster.links_from(node.device))
      if (is_fabric_switch(cluster.device(link.to).kind) &&
          cluster.router().parallel_links().of(link.id) == link.id)
        add_set(cluster, link);
}

// Adds a set of parallel links. A second set between two tiers, or one within a tier, breaks the
// tree.
void FabricTree::add_set(const Cluster& cluster, const Link& link) {
  const std::uint32_t from = node_of_device_[link.from];
  const std::uint32_t to = node_of_device_[link.to];
  const DeviceKind from_kind = cluster.device(link.from).kind;
  const DeviceKind to_kind = cluster.device(link.to).kind;
  if (from_kind == to_kind) {
    broken_[from] = broken_[to] = true;
    return;
  }
  const bool up = from_kind < to_kind;
  Node& lower = nodes_[up ? from : to];
  const std::uint32_t upper = up ? to : from;
  RouteHop& way = up ? lower.up : lower.down;
  if (way.link != kNoLink || (lower.above != kNone && lower.above != upper))
    broken_[up ? from : to] = true;
  // A single link is in no set of parallel links and counts as one.
  const std::size_t links =
      std::max<std::size_t>(1, cluster.router().parallel_links().links(link.id).size());
  way = {.link = link.id, .parallel_count = static_cast<std::uint32_t>(links)};
  lower.above = upper;
}

// Marks nodes that are not part of a tree: those with links in one direction only, and all nodes
// below a broken one.
void FabricTree::find_broken() {
  for (std::uint32_t index = 0; index < size(); ++index)
    if ((nodes_[index].up.link == kNoLink) != (nodes_[index].down.link == kNoLink))
      broken_[index] = true;
  // `above` always leads to a higher tier, so the walk up ends.
  for (std::uint32_t index = 0; index < size(); ++index)
    for (std::uint32_t at = index; at != kNone && !broken_[index]; at = nodes_[at].above)
      if (broken_[at]) broken_[index] = true;
}

// Nodes get equal numbers when their kinds, link counts and wires are equal.
void FabricTree::number_wirings(const Cluster& cluster) {
  using Ways = std::tuple<std::uint32_t, std::uint32_t, Wire, Wire>;
  std::map<std::pair<DeviceKind, Ways>, std::uint32_t> numbers;
  for (Node& node : nodes_) {
    Ways ways;
    // A node at the top has no links up and down. Its kind alone is its key.
    if (node.above != kNone && node.up.link != kNoLink && node.down.link != kNoLink)
      ways = {node.up.parallel_count, node.down.parallel_count, wire_of(cluster.link(node.up.link)),
              wire_of(cluster.link(node.down.link))};
    const auto next = static_cast<std::uint32_t>(numbers.size());
    const std::pair key{cluster.device(node.device).kind, ways};
    node.wiring = numbers.try_emplace(key, next).first->second;
  }
}

// Attaches each GPU to the switch of its NIC, where one cable up and one cable down join the two.
// The cables of both directions are counted, because a cluster file may describe them one by one.
void FabricTree::hang_gpus(const Cluster& cluster) {
  std::vector<Cable> cables(node_of_device_.size());
  const auto is_nic = [&](DeviceId id) { return cluster.device(id).kind == DeviceKind::Nic; };
  for (const DeviceId nic : cluster.nic_of_gpu()) {
    Cable& cable = cables[nic];
    if (cable.up > 0) continue;  // a NIC that two GPUs share is counted once
    for (const Link& link : cluster.links_from(nic)) {
      if (cluster.device(link.to).node == cluster.device(nic).node) continue;
      ++cable.up;
      cable.upper = link.to;
    }
  }
  for (DeviceId device = 0; device < node_of_device_.size(); ++device) {
    if (node_of_device_[device] == kNone) continue;
    for (const Link& link : cluster.links_from(device)) {
      if (!is_nic(link.to)) continue;
      ++cables[link.to].down;
      cables[link.to].downer = device;
    }
  }
  for (std::uint32_t gpu = 0; gpu < switch_of_gpu_.size(); ++gpu) {
    const Cable& cable = cables[cluster.nic_of_gpu()[gpu]];
    // A NIC with several cables has more than one way into the fabric.
    if (cable.up != 1 || cable.down != 1 || cable.upper != cable.downer) continue;
    const std::uint32_t node = node_of_device_[cable.upper];
    if (node != kNone && !broken_[node]) switch_of_gpu_[gpu] = node;
  }
}

}  // namespace trainyard
