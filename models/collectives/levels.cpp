#include "models/collectives/levels.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/collectives/placement.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

using Devices = std::set<DeviceId>;

// Units of one level: by node of the group (in Placement's order), the number of its unit.
using Units = std::vector<std::uint32_t>;

bool is_fabric_switch(const Cluster& cluster, DeviceId id) {
  const DeviceKind kind = cluster.device(id).kind;
  return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
         kind == DeviceKind::CoreSwitch;
}

// Fabric switches that these devices are wired to, one tier further up: a leaf's neighbours among
// leaves (a torus, a mesh of leaves) are no tier.
Devices switches_above(const Cluster& cluster, const Devices& below) {
  Devices above;
  for (const DeviceId id : below) {
    for (const auto edge : boost::make_iterator_range(boost::out_edges(id, cluster.graph()))) {
      const DeviceId other = static_cast<DeviceId>(boost::target(edge, cluster.graph()));
      const bool up = cluster.device(other).kind > cluster.device(id).kind;
      if (up && is_fabric_switch(cluster, other)) above.insert(other);
    }
  }
  return above;
}

// NICs of the node's members: where the group's traffic enters the fabric.
Devices nics_of(const GroupPlace& place, const std::vector<std::uint32_t>& roles) {
  Devices nics;
  if (place.cluster.nic_of_gpu().empty()) return nics;
  for (const std::uint32_t role : roles)
    nics.insert(place.cluster.nic_of_gpu().at(place.gpus[role]));
  return nics;
}

// Numbers for equal sets, in order of first appearance.
Units numbered(const std::vector<Devices>& sets) {
  std::map<Devices, std::uint32_t> known;
  Units units;
  for (const Devices& set : sets)
    units.push_back(known.try_emplace(set, static_cast<std::uint32_t>(known.size())).first->second);
  return units;
}

// Levels of units above the nodes, each joining more than the one before; the last joins all.
std::vector<Units> unit_levels(const GroupPlace& place, const Placement& placement,
                               LevelsOf which) {
  std::vector<Units> levels;
  if (which == LevelsOf::All) {
    std::vector<Devices> sets;
    for (const auto& roles : placement.nodes)
      sets.push_back(switches_above(place.cluster, nics_of(place, roles)));
    while (std::ranges::none_of(sets, [](const Devices& set) { return set.empty(); })) {
      levels.push_back(numbered(sets));
      for (Devices& set : sets) set = switches_above(place.cluster, set);
    }
  }
  levels.push_back(Units(placement.nodes.size(), 0));
  return levels;
}

// Does `outer` join whole units of `inner`, as many everywhere? The number joined, or 0.
std::uint32_t joined(const Units& inner, const Units& outer) {
  std::map<std::uint32_t, std::uint32_t> outer_of;
  for (std::size_t node = 0; node < inner.size(); ++node) {
    const auto [entry, fresh] = outer_of.try_emplace(inner[node], outer[node]);
    if (!fresh && entry->second != outer[node]) return 0;
  }
  std::map<std::uint32_t, std::uint32_t> count;
  for (const auto& [unit, parent] : outer_of) ++count[parent];
  const std::uint32_t first = count.begin()->second;
  const bool even = std::ranges::all_of(count, [&](const auto& it) { return it.second == first; });
  return even ? first : 0;
}

// The units that keep the nesting even, nodes first, with how many of the one below each joins.
struct Nesting {
  std::vector<Units> units;
  std::vector<std::uint32_t> sizes;
};

Nesting even_nesting(const GroupPlace& place, const Placement& placement, LevelsOf which) {
  Units nodes(placement.nodes.size());
  for (std::uint32_t node = 0; node < nodes.size(); ++node) nodes[node] = node;
  Nesting nesting{.units = {std::move(nodes)}, .sizes = {}};
  for (const Units& units : unit_levels(place, placement, which)) {
    const std::uint32_t size = joined(nesting.units.back(), units);
    if (size <= 1) continue;
    nesting.sizes.push_back(size);
    nesting.units.push_back(units);
  }
  return nesting;
}

// The nodes in the order of positions: unit by unit from the outermost.
std::vector<std::uint32_t> node_order(const Nesting& nesting, std::size_t nodes) {
  std::vector<std::uint32_t> order(nodes);
  for (std::uint32_t node = 0; node < nodes; ++node) order[node] = node;
  for (const Units& units : nesting.units)
    std::ranges::stable_sort(order, {}, [&](std::uint32_t node) { return units[node]; });
  return order;
}

}  // namespace

std::uint32_t Levels::stride(std::size_t level) const {
  std::uint32_t stride = 1;
  for (std::size_t below = 0; below < level; ++below) stride *= sizes[below];
  return stride;
}

std::vector<std::uint32_t> Levels::line(std::size_t level, std::uint32_t position) const {
  const std::uint32_t step = stride(level);
  const std::uint32_t first = position - digit(level, position) * step;
  std::vector<std::uint32_t> roles;
  roles.reserve(sizes[level]);
  for (std::uint32_t i = 0; i < sizes[level]; ++i) roles.push_back(role_at[first + i * step]);
  return roles;
}

Levels levels_of(const GroupPlace& place, LevelsOf which) {
  const Placement placement = placement_of(place);
  TY_CHECK(placement.even(), placement.smallest(), placement.largest());
  const Nesting nesting = even_nesting(place, placement, which);
  Levels levels;
  if (placement.smallest() > 1) {
    levels.within_node = true;
    levels.sizes.push_back(static_cast<std::uint32_t>(placement.smallest()));
  }
  levels.sizes.insert(levels.sizes.end(), nesting.sizes.begin(), nesting.sizes.end());
  for (const std::uint32_t node : node_order(nesting, placement.nodes.size()))
    for (const std::uint32_t role : placement.nodes[node]) levels.role_at.push_back(role);
  levels.at_role.resize(levels.role_at.size());
  for (std::uint32_t position = 0; position < levels.role_at.size(); ++position)
    levels.at_role[levels.role_at[position]] = position;
  return levels;
}

}  // namespace trainyard
