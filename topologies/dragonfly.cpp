// Dragonfly (Kim, Dally, Scott, Abts, ISCA'08): groups of a routers. Each router has p NICs, a
// cable to every other router of its group and h global cables to other groups. There are up to a h
// + 1 groups; the fabric is balanced where a = 2p = 2h. Routers of 15 ports: p = 4, a = 8, h = 4,
// 33 groups, 1056 NICs.
//
// The NICs of a node are on consecutive routers, one on each, as in the cabinets that are built: a
// router then joins NICs of one rail, and the rails of p nodes need no cable between routers. (If
// the routers of a group are no multiple of a node's NICs, consecutive NICs share a router.)
//
// Routes are minimal: within the group to the router with the global cable, over it, and within the
// other group to the target (never through a third group). A group's global cables are divided
// evenly among the other groups, so that consecutive groups are on consecutive routers.

#include <fmt/format.h>

#include <map>

#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

struct Shape {
  std::uint32_t nics = 0;     // p, of one router
  std::uint32_t routers = 0;  // a, of one group
  std::uint32_t global = 0;   // h, of one router
  std::uint32_t groups = 0;
};

// Chooses the parameters that the spec leaves open and checks that ports and groups suffice.
Shape shape_of(const Dragonfly& fabric, const ClusterSpec& spec) {
  const auto chosen = [](std::uint32_t wanted, std::uint32_t otherwise) {
    return wanted > 0 ? wanted : std::max(otherwise, 1U);
  };
  Shape shape;
  shape.nics = chosen(fabric.nics_per_router, (fabric.radix + 1) / 4);
  shape.routers = chosen(fabric.routers_per_group, 2 * shape.nics);
  shape.global = chosen(fabric.global_links, shape.nics);
  const std::uint64_t ports = std::uint64_t{shape.nics} + shape.routers - 1 + shape.global;
  if (ports > fabric.radix) {
    throw InputError(Problem{
        "", "/fabric/radix",
        fmt::format("a router for {} NICs, {} others of its group and {} global cables needs {} "
                    "ports and has {}",
                    shape.nics, shape.routers - 1, shape.global, ports, fabric.radix),
        fmt::format("raise radix to {}, or lower nics_per_router, routers_per_group or "
                    "global_links",
                    ports)});
  }
  const std::uint64_t nics = std::uint64_t{spec.nodes} * spec.node.nics;
  // A group has routers * global cables and needs one to each other group.
  const std::uint64_t in_group = std::uint64_t{shape.nics} * shape.routers;
  const std::uint64_t groups_most = std::uint64_t{shape.routers} * shape.global + 1;
  const std::uint64_t groups = (nics + in_group - 1) / in_group;
  if (groups > groups_most) {
    throw InputError(
        Problem{"", "/nodes",
                fmt::format("{} nodes do not fit: {} groups of {} routers with {} NICs hold {}",
                            spec.nodes, groups_most, shape.routers, shape.nics,
                            groups_most * in_group / spec.node.nics),
                "raise fabric.radix, or set nics_per_router, routers_per_group and global_links"});
  }
  shape.groups = static_cast<std::uint32_t>(groups);
  return shape;
}

// The router of NIC `nic`, if each node has `rails` NICs and they are numbered node by node. With p
// = 4 and 8 rails, NIC q of nodes 0 to 3 is on router q, and that of nodes 4 to 7 on router 8 + q.
std::size_t router_of(std::size_t nic, const Shape& shape, std::size_t rails) {
  if (rails == 0 || shape.routers % rails != 0) return nic / shape.nics;
  const std::size_t node = nic / rails;
  return node / shape.nics * rails + nic % rails;
}

void join_groups(const Dragonfly& fabric, const ClusterSpec& spec, const Shape& shape,
                 const std::vector<DeviceId>& routers, Draft& draft) {
  if (shape.groups < 2) return;
  // The number of cables between any two groups; what the division leaves over stays unused. Group
  // g has its ports (d - 1) * cables .. d * cables - 1 for group g + d (modulo the number of
  // groups), so both ends of a cable agree.
  const std::uint32_t cables = shape.routers * shape.global / (shape.groups - 1);
  const auto router = [&](std::uint32_t group, std::uint32_t distance, std::uint32_t cable) {
    const std::uint32_t port = (distance - 1) * cables + cable;
    return routers[std::size_t{group} * shape.routers + port / shape.global];
  };
  for (std::uint32_t a = 0; a < shape.groups; ++a) {
    for (std::uint32_t b = a + 1; b < shape.groups; ++b) {
      std::map<std::pair<DeviceId, DeviceId>, std::uint32_t> parallel_links;
      for (std::uint32_t cable = 0; cable < cables; ++cable) {
        ++parallel_links[{router(a, b - a, cable), router(b, shape.groups - (b - a), cable)}];
      }
      for (const auto& [ends, count] : parallel_links) {
        draft.cable(ends.first, ends.second,
                    switch_wire(spec, fabric.hop_latency, LinkKind::Global, count));
      }
    }
  }
}

}  // namespace

void draw_fabric(const Dragonfly& fabric, const ClusterSpec& spec, Draft& draft) {
  const Shape shape = shape_of(fabric, spec);
  const auto routers =
      add_switches(draft, DeviceKind::LeafSwitch, "router", shape.groups * shape.routers);
  for (std::size_t i = 0; i < draft.nics.size(); ++i) {
    draft.cable(draft.nics[i], routers[router_of(i, shape, spec.node.nics)], nic_wire(spec));
  }
  const Wire local = switch_wire(spec, fabric.hop_latency, LinkKind::Local, 1);
  for (std::size_t a = 0; a < routers.size(); ++a) {
    const std::size_t group_end = (a / shape.routers + 1) * shape.routers;
    for (std::size_t b = a + 1; b < group_end; ++b) draft.cable(routers[a], routers[b], local);
  }
  join_groups(fabric, spec, shape, routers, draft);
}

}  // namespace trainyard
