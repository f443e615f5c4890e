#include "sim/collectives/levels.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/check.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

using Devices = std::set<DeviceId>;

// By group rank, the number of its unit at one level.
using Units = std::vector<std::uint32_t>;

// Fabric switches that these devices are wired to, one tier further up: a leaf's neighbours among
// leaves (a torus, a mesh of leaves) are no tier.
Devices switches_above(const Cluster& cluster, const Devices& below) {
  Devices above;
  for (const DeviceId id : below) {
    for (const Link link : cluster.links_from(id)) {
      const DeviceKind kind = cluster.device(link.to).kind;
      if (kind > cluster.device(id).kind && is_fabric_switch(kind)) above.insert(link.to);
    }
  }
  return above;
}

// NICs of the node's members: where the group's traffic enters the fabric.
Devices nics_of(const GroupPlace& place, const std::vector<std::uint32_t>& group_ranks) {
  Devices nics;
  if (place.cluster.nic_of_gpu().empty()) return nics;
  for (const std::uint32_t group_rank : group_ranks)
    nics.insert(place.cluster.nic_of_gpu().at(place.gpus[group_rank]));
  return nics;
}

// Sets of devices, each once, and by node the number of its own. Thousands of nodes hang on few
// different sets of switches.
struct DeviceSets {
  std::vector<Devices> sets;
  Units of_node;
};

// Applies `made` to the sets; equal results are one set.
template <class Make>
DeviceSets changed(const DeviceSets& before, Make made) {
  DeviceSets after;
  std::map<Devices, std::uint32_t> known;
  Units number_of;  // by set before
  for (const Devices& set : before.sets) {
    Devices result = made(set);
    const auto next = static_cast<std::uint32_t>(after.sets.size());
    const auto [entry, fresh] = known.try_emplace(std::move(result), next);
    if (fresh) after.sets.push_back(entry->first);
    number_of.push_back(entry->second);
  }
  for (const std::uint32_t set : before.of_node) after.of_node.push_back(number_of[set]);
  return after;
}

// By device, one that stands for all it reaches over links within a tier: a dragonfly group.
std::vector<DeviceId> neighbourhoods(const Cluster& cluster) {
  std::vector<DeviceId> stands_for(cluster.device_count(), kNone);
  for (DeviceId start = 0; start < stands_for.size(); ++start) {
    if (stands_for[start] != kNone) continue;
    stands_for[start] = start;
    std::vector<DeviceId> open{start};
    while (!open.empty()) {
      const DeviceId id = open.back();
      open.pop_back();
      for (const Link link : cluster.links_from(id)) {
        if (link.kind != LinkKind::Local || stands_for[link.to] != kNone) continue;
        stands_for[link.to] = start;
        open.push_back(link.to);
      }
    }
  }
  return stands_for;
}

// The unit of every rank at one level.
struct Level {
  LevelKind kind = LevelKind::Fabric;
  Units units;
};

// Dimension by dimension: all whose coordinates beyond it are equal. `place_of` is the number of a
// group rank's place in the torus, `torus_of` that of its torus.
template <class PlaceOf, class TorusOf>
void add_dimensions(const std::vector<std::uint32_t>& dims, std::size_t ranks, PlaceOf place_of,
                    TorusOf torus_of, std::vector<Level>& levels) {
  std::uint32_t places = 1;
  for (const std::uint32_t size : dims) places *= size;
  std::uint32_t joined = 1;
  for (const std::uint32_t size : dims) {
    joined *= size;
    Level level{.kind = LevelKind::Dimension, .units = Units(ranks)};
    for (std::uint32_t group_rank = 0; group_rank < ranks; ++group_rank)
      level.units[group_rank] =
          torus_of(group_rank) * (places / joined) + place_of(group_rank) / joined;
    levels.push_back(std::move(level));
  }
}

// Levels of switches above the nodes.
void add_tiers(const GroupPlace& place, const Placement& placement, std::vector<Level>& levels) {
  const auto add = [&](const Units& of_node) {
    Level level{.units = Units(place.gpus.size())};
    for (std::size_t node = 0; node < placement.nodes.size(); ++node)
      for (const std::uint32_t group_rank : placement.nodes[node])
        level.units[group_rank] = of_node[node];
    levels.push_back(std::move(level));
  };
  const auto above = [&](const Devices& set) { return switches_above(place.cluster, set); };
  const std::vector<DeviceId> neighbours = neighbourhoods(place.cluster);
  DeviceSets tier;
  for (const auto& group_ranks : placement.nodes) {
    tier.of_node.push_back(static_cast<std::uint32_t>(tier.sets.size()));
    tier.sets.push_back(nics_of(place, group_ranks));
  }
  tier = changed(tier, above);
  while (std::ranges::none_of(tier.sets, [](const Devices& set) { return set.empty(); })) {
    add(tier.of_node);
    add(changed(tier, [&](const Devices& set) {
          Devices units;
          for (const DeviceId id : set) units.insert(neighbours[id]);
          return units;
        }).of_node);
    tier = changed(tier, above);
  }
}

// From the innermost on, each joining more than the one before; the last joins all.
std::vector<Level> unit_levels(const GroupPlace& place, const Placement& placement,
                               LevelsOf which) {
  const Cluster& cluster = place.cluster;
  const std::size_t ranks = place.gpus.size();
  const auto node = [&](std::uint32_t group_rank) {
    return cluster.node_of(place.gpus[group_rank]);
  };
  std::vector<Level> levels;
  if (which == LevelsOf::All)
    add_dimensions(
        cluster.facts().node_torus, ranks,
        [&](std::uint32_t group_rank) { return cluster.local_index(place.gpus[group_rank]); }, node,
        levels);
  Level nodes{.kind = LevelKind::Node, .units = Units(ranks)};
  for (std::uint32_t group_rank = 0; group_rank < ranks; ++group_rank)
    nodes.units[group_rank] = node(group_rank);
  levels.push_back(std::move(nodes));
  if (which == LevelsOf::All && !cluster.facts().torus.empty()) {
    add_dimensions(
        cluster.facts().torus, ranks, node, [](std::uint32_t) { return 0U; }, levels);
  } else if (which == LevelsOf::All) {
    add_tiers(place, placement, levels);
  }
  levels.push_back({.units = Units(ranks, 0)});
  return levels;
}

// Does `outer` join whole units of `inner`, as many everywhere? The number joined, or 0.
std::uint32_t joined(const Units& inner, const Units& outer) {
  std::map<std::uint32_t, std::uint32_t> outer_of;
  for (std::size_t group_rank = 0; group_rank < inner.size(); ++group_rank) {
    const auto [entry, fresh] = outer_of.try_emplace(inner[group_rank], outer[group_rank]);
    if (!fresh && entry->second != outer[group_rank]) return 0;
  }
  std::map<std::uint32_t, std::uint32_t> count;
  for (const auto& [unit, parent] : outer_of) ++count[parent];
  const std::uint32_t first = count.begin()->second;
  const bool even = std::ranges::all_of(count, [&](const auto& it) { return it.second == first; });
  return even ? first : 0;
}

// The group ranks node by node, as the placement has them.
std::vector<std::uint32_t> group_ranks_of(const Placement& placement) {
  std::vector<std::uint32_t> group_ranks;
  for (const auto& node : placement.nodes)
    group_ranks.insert(group_ranks.end(), node.begin(), node.end());
  return group_ranks;
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
  std::vector<std::uint32_t> group_ranks;
  group_ranks.reserve(sizes[level]);
  for (std::uint32_t i = 0; i < sizes[level]; ++i)
    group_ranks.push_back(group_rank_at[first + i * step]);
  return group_ranks;
}

// The levels that keep the nesting even; positions go unit by unit from the outermost.
Levels levels_of(const GroupPlace& place, LevelsOf which) {
  const Placement placement = placement_of(place);
  TY_CHECK(placement.even(), placement.smallest(), placement.largest());
  Levels levels;
  levels.group_rank_at = group_ranks_of(placement);
  Units inner(place.gpus.size());
  std::iota(inner.begin(), inner.end(), 0U);
  bool is_box = true;  // else what dimensions it has do not join lines
  for (const Level& level : unit_levels(place, placement, which)) {
    const std::uint32_t size = joined(inner, level.units);
    const bool dimension = level.kind == LevelKind::Dimension;
    is_box = !dimension || (is_box && size > 0);
    if (size <= 1 || !is_box) continue;
    const bool part = level.kind == LevelKind::Node && !levels.sizes.empty();
    levels.kinds.push_back(part ? LevelKind::Fabric : level.kind);
    levels.sizes.push_back(size);
    inner = level.units;
    std::ranges::stable_sort(levels.group_rank_at, {},
                             [&](std::uint32_t group_rank) { return inner[group_rank]; });
  }
  levels.at_group_rank.resize(levels.group_rank_at.size());
  for (std::uint32_t position = 0; position < levels.group_rank_at.size(); ++position)
    levels.at_group_rank[levels.group_rank_at[position]] = position;
  return levels;
}

}  // namespace trainyard
