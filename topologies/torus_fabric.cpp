// A torus of nodes: each node has a router that its NICs hang on, and `cables` of a NIC's rate lead
// to each neighbour. Routes are the shortest ones; at every router they part evenly over the
// dimensions still to go, and where the target is half-way around a ring over both directions.
//
// A ring of n nodes with an exchange of S between every two: every directed link carries n^2 S / 8
// (n even), so n = 8 takes at least 8 S / B (held by tests/topologies/torus_test.cpp).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.hpp"
#include "topologies/clos.hpp"
#include "topologies/fabric.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

std::vector<std::uint32_t> torus_dims(const ClusterSpec& spec) {
  const FabricSpec& fabric = spec.fabric;
  if (fabric.dims.empty()) return balanced_dims(spec.nodes, std::max(fabric.dimensions, 1U));
  const std::uint64_t places = torus_places(fabric.dims);
  if (places == spec.nodes) return fabric.dims;
  const auto count = static_cast<std::uint32_t>(fabric.dims.size());
  throw InputError(Problem{"", "/fabric/dims",
                           fmt::format("a torus of {} has {} places for {} nodes",
                                       fmt::join(fabric.dims, " x "), places, spec.nodes),
                           fmt::format("for {} nodes use [{}]", spec.nodes,
                                       fmt::join(balanced_dims(spec.nodes, count), ", "))});
}

void draw_torus(const ClusterSpec& spec, Draft& draft) {
  const std::vector<std::uint32_t> dims = torus_dims(spec);
  const auto routers = add_switches(draft, DeviceKind::LeafSwitch, "router", spec.nodes);
  for (std::size_t i = 0; i < draft.nics.size(); ++i) {
    draft.cable(draft.nics[i], routers[i / spec.node.nics], nic_wire(spec));
  }
  const std::uint32_t cables = spec.fabric.cables > 0 ? spec.fabric.cables : spec.node.nics;
  for (const TorusWire& wire : torus_wires(dims)) {
    draft.cable(routers[wire.from], routers[wire.to],
                switch_wire(spec, LinkKind::Local, cables * wire.times));
  }
}

}  // namespace trainyard
