// Rail-optimised leaf-spine, as in the DGX SuperPOD reference architectures. Servers form units,
// and NIC q of every server of a unit is connected to leaf q of that unit, so GPUs with equal index
// are one switch apart. A node that is one NVLink domain of several servers (NVL72: 18 compute
// trays of 4 GPUs) has as many rails as one of its servers has NICs.
//
// While spines have ports for all leaves there is one spine tier. For larger clusters each rail has
// separate pods, and a third tier joins them, so that traffic of one rail within a pod stays below
// the cores.

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

struct Units {
  std::uint32_t servers = 0;  // of one unit, which is the number of downlinks of a leaf
  std::uint32_t uplinks = 0;  // of a leaf
  std::uint32_t count = 0;
  std::uint32_t rails = 0;        // NICs of one server
  std::uint32_t all_servers = 0;  // of the cluster
};

// Returns the number of servers of one node, which share its NICs evenly.
std::uint32_t servers_per_node(const NodeSpec& node) {
  const std::uint32_t gpus = node.gpus_per_cpu * node.cpus_per_host;
  if (gpus == 0 || node.gpus % gpus != 0 || node.nics % (node.gpus / gpus) != 0) return 1;
  return node.gpus / gpus;
}

// Returns the number of servers under one set of leaves: whole nodes, where a leaf has ports for
// one. With 32 downlinks and 18 servers a node (NVL72) these are the 18 servers of one node.
std::uint32_t servers_per_unit(const RailOptimized& fabric, std::uint32_t of_node) {
  if (fabric.nodes_per_unit > 0) return fabric.nodes_per_unit * of_node;
  const std::uint32_t most = downlinks(fabric.radix, fabric.oversubscription);
  return most >= of_node ? most / of_node * of_node : most;
}

Units divide(const RailOptimized& fabric, const ClusterSpec& spec) {
  const std::uint32_t of_node = servers_per_node(spec.node);
  Units units{.rails = spec.node.nics / of_node, .all_servers = spec.nodes * of_node};
  units.servers = servers_per_unit(fabric, of_node);
  units.uplinks = uplinks(units.servers, fabric.oversubscription);
  if (units.servers == 0 || units.servers + units.uplinks > fabric.radix) {
    throw InputError(Problem{
        "", "/fabric/nodes_per_unit",
        fmt::format("a leaf for {} nodes needs {} ports down and {} up, and a switch has {}",
                    units.servers / of_node, units.servers, units.uplinks, fabric.radix),
        fmt::format("put at most {} nodes in a unit, or raise radix or oversubscription",
                    downlinks(fabric.radix, fabric.oversubscription) / of_node)});
  }
  units.count = (units.all_servers + units.servers - 1) / units.servers;
  return units;
}

// Adds the leaves, by unit and then by rail, and cables the NICs to them.
std::vector<DeviceId> draw_leaves(const ClusterSpec& spec, const Units& units, Draft& draft) {
  const std::uint32_t rails = units.rails;
  const auto leaves = add_switches(draft, DeviceKind::LeafSwitch, "leaf", units.count * rails);
  const Wire wire = nic_wire(spec);
  std::vector<DeviceId> nics;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const auto unit = static_cast<std::uint32_t>(leaf / rails);
    const std::uint32_t end = std::min((unit + 1) * units.servers, units.all_servers);
    nics.clear();
    for (std::uint32_t server = unit * units.servers; server < end; ++server)
      // The NICs of a node are numbered server by server: NIC q of server s is s * rails + q.
      nics.push_back(draft.nics[std::size_t{server} * rails + leaf % rails]);
    draft.blueprint.join(nics, std::span(&leaves[leaf], 1), wire);
  }
  return leaves;
}

// Returns pods of one rail each. A pod has the leaves of its rail in a block of consecutive units;
// blocks have equal size: 40 units, of which a pod takes at most 32, make two blocks of 20.
std::vector<std::vector<DeviceId>> pods_by_rail(const RailOptimized& fabric, const Units& units,
                                                const std::vector<DeviceId>& leaves) {
  const std::uint32_t rails = units.rails;
  const std::uint32_t most = downlinks(fabric.radix, fabric.core_oversubscription);
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

void draw_fabric(const RailOptimized& fabric, const ClusterSpec& spec, Draft& draft) {
  const Units units = divide(fabric, spec);
  // Fails before anything is drawn. A core needs a port for at least one cable of each pod, and a
  // block of `most` units has a pod for each rail, so there are at most radix / rails blocks.
  const std::uint32_t radix = fabric.radix;
  const std::uint32_t most = downlinks(radix, fabric.core_oversubscription);
  const std::uint64_t nodes_most =
      std::uint64_t{radix / units.rails} * most * units.servers / servers_per_node(spec.node);
  const bool two_tiers = units.count * units.rails <= radix;
  if (!two_tiers && spec.nodes > nodes_most) {
    throw InputError(Problem{
        "", "/nodes",
        fmt::format("{} nodes with {} rails do not fit: three tiers of {}-port switches hold {}",
                    spec.nodes, units.rails, radix, nodes_most),
        "raise fabric.radix or an oversubscription, or use fewer nodes"});
  }
  const Switches switches{radix, fabric.hop_latency};
  const std::vector<DeviceId> leaves = draw_leaves(spec, units, draft);
  if (join_two_tiers(spec, switches, leaves, units.uplinks, draft)) return;
  if (join_three_tiers(spec, switches, fabric.core_oversubscription,
                       pods_by_rail(fabric, units, leaves), units.uplinks, draft))
    return;
  throw InputError(Problem{"", "/fabric",
                           fmt::format("the pods of {} units and {} rails need cores of more than "
                                       "{} ports",
                                       units.count, units.rails, radix),
                           "raise fabric.radix or an oversubscription, or use fewer nodes"});
}

// Two leaves (top-of-rack switches) for every NIC, as in Alibaba's HPN (Qian et al., SIGCOMM'24).
// Each of a NIC's two ports has half of its rate and is connected to a leaf of a separate plane;
// only the NICs join the planes. Each plane is rail-optimised. With one leaf dead a NIC keeps half
// of its rate.
//
// HPN itself: 2 x 200 Gb/s a NIC, 8 rails, leaves of 128 downlinks at 200 Gb/s: 1024 GPUs in a unit
// of 16 leaves.
void draw_fabric(const DualTor& fabric, const ClusterSpec& spec, Draft& draft) {
  constexpr int kPlanes = 2;
  ClusterSpec plane = spec;
  plane.node.nic = spec.node.nic / kPlanes;
  plane.node.nic_nominal = spec.node.nic_nominal / kPlanes;
  for (int i = 0; i < kPlanes; ++i)
    draw_fabric(static_cast<const RailOptimized&>(fabric), plane, draft);
}

}  // namespace trainyard
