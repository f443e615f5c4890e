#include "sim/collectives/levels.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/check.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

// The approach: unit_levels() lists candidate levels from the innermost to the outermost, each as
// the unit number of every rank. levels_of() accepts a candidate if each of its units joins the
// same number of units of the level accepted before. Fat trees, tori and dragonflies therefore
// share this code, and an uneven group loses only the levels on which it is uneven.
namespace {

using Devices = std::set<DeviceId>;

// By group rank, the number of the unit that contains it at one level.
using Units = std::vector<std::uint32_t>;

// Fabric switches one tier above these devices. Links between switches of the same tier (a torus or
// a mesh of leaves) do not lead to a higher tier, so only switches of a greater DeviceKind count.
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

// NICs of the members on one node, through which the traffic of the group enters the fabric.
Devices nics_of(const PlacedGroup& placed, const std::vector<std::uint32_t>& group_ranks) {
  Devices nics;
  if (placed.cluster.nic_of_gpu().empty()) return nics;
  for (const std::uint32_t group_rank : group_ranks)
    nics.insert(placed.cluster.nic_of_gpu().at(placed.gpus[group_rank]));
  return nics;
}

// Distinct sets of devices, and by node the index of its set. Thousands of nodes share few distinct
// sets of switches, so each set is processed once.
struct DeviceSets {
  std::vector<Devices> sets;
  Units of_node;
};

// Applies `made` to every set and merges sets whose results are equal.
template <class Make>
DeviceSets changed(const DeviceSets& before, Make made) {
  DeviceSets after;
  std::map<Devices, std::uint32_t> known;
  Units number_of;  // by old set, the index of its result
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

// By device, a representative of all devices that it reaches over links within one tier (a
// dragonfly group). A depth-first search labels the connected components of the Local links.
std::vector<DeviceId> neighbourhoods(const Cluster& cluster) {
  std::vector<DeviceId> component_of(cluster.device_count(), kNone);
  for (DeviceId start = 0; start < component_of.size(); ++start) {
    if (component_of[start] != kNone) continue;
    component_of[start] = start;
    std::vector<DeviceId> open{start};
    while (!open.empty()) {
      const DeviceId id = open.back();
      open.pop_back();
      for (const Link link : cluster.links_from(id)) {
        if (link.kind != LinkKind::Local || component_of[link.to] != kNone) continue;
        component_of[link.to] = start;
        open.push_back(link.to);
      }
    }
  }
  return component_of;
}

// One candidate level: the unit of every rank.
struct Level {
  LevelKind kind = LevelKind::Fabric;
  Units units;
};

// Adds one level per dimension: a unit contains all ranks that have equal coordinates in the
// dimensions beyond. `holder_of` returns the index of a group rank within its torus (the first
// dimension varies fastest), `torus_of` the number of its torus.
template <class PlaceOf, class TorusOf>
void add_dimensions(const std::vector<std::uint32_t>& dims, std::size_t ranks, PlaceOf holder_of,
                    TorusOf torus_of, std::vector<Level>& levels) {
  std::uint32_t places = 1;
  for (const std::uint32_t size : dims) places *= size;
  // Holders per unit of the level. Example: dims {4, 2} on one torus. At the first level holders 0
  // to 3 and 4 to 7 form two units; at the second all 8 form one.
  std::uint32_t joined = 1;
  for (const std::uint32_t size : dims) {
    joined *= size;
    Level level{.kind = LevelKind::Dimension, .units = Units(ranks)};
    for (std::uint32_t group_rank = 0; group_rank < ranks; ++group_rank)
      level.units[group_rank] =
          torus_of(group_rank) * (places / joined) + holder_of(group_rank) / joined;
    levels.push_back(std::move(level));
  }
}

// Adds the levels of switches above the nodes. For each tier it adds two candidates: nodes that
// enter the same set of switches, and nodes whose switches are in the same neighbourhood (a
// dragonfly group). It stops at the first tier that some node does not reach. levels_of() drops the
// candidates that join nothing.
void add_tiers(const PlacedGroup& placed, const Placement& placement, std::vector<Level>& levels) {
  const auto add = [&](const Units& of_node) {
    Level level{.units = Units(placed.gpus.size())};
    for (std::size_t node = 0; node < placement.nodes.size(); ++node)
      for (const std::uint32_t group_rank : placement.nodes[node])
        level.units[group_rank] = of_node[node];
    levels.push_back(std::move(level));
  };
  const auto above = [&](const Devices& set) { return switches_above(placed.cluster, set); };
  const std::vector<DeviceId> neighbours = neighbourhoods(placed.cluster);
  // Each node starts with a set of its own. The first `changed` merges the nodes whose NICs connect
  // to the same switches.
  DeviceSets tier;
  for (const auto& group_ranks : placement.nodes) {
    tier.of_node.push_back(static_cast<std::uint32_t>(tier.sets.size()));
    tier.sets.push_back(nics_of(placed, group_ranks));
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

// All candidate levels from the innermost to the outermost; the last one joins all ranks.
std::vector<Level> unit_levels(const PlacedGroup& placed, const Placement& placement,
                               LevelsOf which) {
  const Cluster& cluster = placed.cluster;
  const std::size_t ranks = placed.gpus.size();
  const auto node = [&](std::uint32_t group_rank) {
    return cluster.node_of(placed.gpus[group_rank]);
  };
  std::vector<Level> levels;
  if (which == LevelsOf::All)
    add_dimensions(
        cluster.facts().node_torus, ranks,
        [&](std::uint32_t group_rank) { return cluster.local_index(placed.gpus[group_rank]); },
        node, levels);
  Level nodes{.kind = LevelKind::Node, .units = Units(ranks)};
  for (std::uint32_t group_rank = 0; group_rank < ranks; ++group_rank)
    nodes.units[group_rank] = node(group_rank);
  levels.push_back(std::move(nodes));
  if (which == LevelsOf::All && !cluster.facts().torus.empty()) {
    add_dimensions(
        cluster.facts().torus, ranks, node, [](std::uint32_t) { return 0U; }, levels);
  } else if (which == LevelsOf::All) {
    add_tiers(placed, placement, levels);
  }
  levels.push_back({.units = Units(ranks, 0)});
  return levels;
}

// The number of units of `inner` that each unit of `outer` joins, or 0 if `outer` splits a unit of
// `inner` or joins different numbers of them.
std::uint32_t joined(const Units& inner, const Units& outer) {
  // By unit of `inner`, the unit of `outer` that contains it.
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

// The group ranks in the order of the placement, node by node.
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

// Selects those candidate levels that keep the nesting even. The stable sort by unit after each
// selected level keeps the order within the inner units, so that in the end the position has the
// outermost unit as its highest digit.
Levels levels_of(const PlacedGroup& placed, LevelsOf which) {
  const Placement placement = placement_of(placed);
  TY_CHECK(placement.even(), placement.smallest(), placement.largest());
  Levels levels;
  levels.group_rank_at = group_ranks_of(placement);
  Units inner(placed.gpus.size());
  std::iota(inner.begin(), inner.end(), 0U);
  bool is_box = true;  // false after a dimension that is not even: later ones would not form lines
  for (const Level& level : unit_levels(placed, placement, which)) {
    const std::uint32_t size = joined(inner, level.units);
    const bool dimension = level.kind == LevelKind::Dimension;
    is_box = !dimension || (is_box && size > 0);
    // Size 0 means uneven, size 1 that the level joins nothing.
    if (size <= 1 || !is_box) continue;
    // A Node level above other levels joins parts of a node. Its lines are not whole nodes, so they
    // count as Fabric.
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
