// Rail-optimised leaf-spine, as in the DGX SuperPOD reference architectures: nodes form units, and
// NIC q of every node of a unit goes to leaf q of that unit, so GPUs with equal index are one
// switch apart.
//
// While spines have ports for all leaves there is one spine tier. Beyond, each rail gets pods of
// its own (equal rails stay below the cores) and a third tier joins them.

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "sim/base/error.hpp"
#include "topologies/clos.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

namespace {

struct Units {
  std::uint32_t nodes = 0;    // of one unit: the downlinks of a leaf
  std::uint32_t uplinks = 0;  // of a leaf
  std::uint32_t count = 0;
};

Units divide(const ClusterSpec& spec) {
  const FabricSpec& fabric = spec.fabric;
  Units units;
  units.nodes = fabric.nodes_per_unit > 0 ? fabric.nodes_per_unit
                                          : downlinks(fabric.radix, fabric.oversubscription);
  units.uplinks = uplinks(units.nodes, fabric.oversubscription);
  if (units.nodes == 0 || units.nodes + units.uplinks > fabric.radix) {
    throw InputError(Problem{
        "", "/fabric/nodes_per_unit",
        fmt::format("a leaf for {} nodes needs {} ports down and {} up, and a switch has {}",
                    units.nodes, units.nodes, units.uplinks, fabric.radix),
        fmt::format("put at most {} nodes in a unit, or raise radix or oversubscription",
                    downlinks(fabric.radix, fabric.oversubscription))});
  }
  units.count = (spec.nodes + units.nodes - 1) / units.nodes;
  return units;
}

// Leaves by unit, then rail; the NICs are cabled to them.
std::vector<DeviceId> draw_leaves(const ClusterSpec& spec, const Units& units, Draft& draft) {
  const std::uint32_t rails = spec.node.nics;
  const auto leaves = add_switches(draft, DeviceKind::LeafSwitch, "leaf", units.count * rails);
  const Wire wire = nic_wire(spec);
  std::vector<DeviceId> nics;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const auto unit = static_cast<std::uint32_t>(leaf / rails);
    const std::uint32_t end = std::min((unit + 1) * units.nodes, spec.nodes);
    nics.clear();
    for (std::uint32_t node = unit * units.nodes; node < end; ++node)
      nics.push_back(draft.nics[std::size_t{node} * rails + leaf % rails]);
    draft.blueprint.join(nics, std::span(&leaves[leaf], 1), wire);
  }
  return leaves;
}

// Pods of one rail each: the leaves of that rail in a block of neighbouring units, blocks of equal
// size.
std::vector<std::vector<DeviceId>> pods_by_rail(const ClusterSpec& spec, const Units& units,
                                                const std::vector<DeviceId>& leaves) {
  const std::uint32_t rails = spec.node.nics;
  const std::uint32_t most = downlinks(spec.fabric.radix, spec.fabric.core_oversubscription);
  const std::uint32_t blocks = (units.count + most - 1) / most;
  const std::uint32_t size = (units.count + blocks - 1) / blocks;
  std::vector<std::vector<DeviceId>> pods;
  for (std::uint32_t begin = 0; begin < units.count; begin += size) {
    for (std::uint32_t rail = 0; rail < rails; ++rail) {
      std::vector<DeviceId>& pod = pods.emplace_back();
      for (std::uint32_t unit = begin; unit < std::min(begin + size, units.count); ++unit) {
        pod.push_back(leaves[std::size_t{unit} * rails + rail]);
      }
    }
  }
  return pods;
}

}  // namespace

void draw_rail_optimized(const ClusterSpec& spec, Draft& draft) {
  const Units units = divide(spec);
  // Refused before anything is drawn: pods x one cable must fit a core.
  const std::uint32_t radix = spec.fabric.radix;
  const std::uint32_t most = downlinks(radix, spec.fabric.core_oversubscription);
  const std::uint64_t nodes_most = std::uint64_t{radix / spec.node.nics} * most * units.nodes;
  const bool two_tiers = units.count * spec.node.nics <= radix;
  if (!two_tiers && spec.nodes > nodes_most) {
    throw InputError(Problem{
        "", "/nodes",
        fmt::format("{} nodes with {} rails do not fit: three tiers of {}-port switches hold {}",
                    spec.nodes, spec.node.nics, radix, nodes_most),
        "raise fabric.radix or an oversubscription, or use fewer nodes"});
  }
  const std::vector<DeviceId> leaves = draw_leaves(spec, units, draft);
  if (join_two_tiers(spec, leaves, units.uplinks, draft)) return;
  if (join_three_tiers(spec, pods_by_rail(spec, units, leaves), units.uplinks, draft)) return;
  throw InputError(Problem{"", "/fabric",
                           fmt::format("the pods of {} units and {} rails need cores of more than "
                                       "{} ports",
                                       units.count, spec.node.nics, radix),
                           "raise fabric.radix or an oversubscription, or use fewer nodes"});
}

}  // namespace trainyard
