// Planes, as DeepSeek builds them (DeepSeek-V3, ISCA'25): NIC q of every node is in plane q, and
// each plane is a two-level fat-tree of its own. With 64 ports a plane holds 64^2/2 = 2048 nodes,
// so 8 planes hold 16 384 GPUs in two levels. No cable joins two planes: a GPU of the node passes
// a message on over NVLink (PXN).

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "topologies/clos.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

void draw_multi_plane(const ClusterSpec& spec, Draft& draft) {
  const std::uint32_t radix = spec.fabric.radix;
  const std::uint32_t down = downlinks(radix, spec.fabric.oversubscription);
  const std::uint32_t leaves = down == 0 ? 0 : (spec.nodes + down - 1) / down;
  if (down == 0 || leaves > radix) {
    throw InputError(Problem{
        "", "/nodes",
        fmt::format("{} nodes do not fit: a plane of two levels of {}-port switches holds {}",
                    spec.nodes, radix, std::uint64_t{radix} * down),
        "raise fabric.radix or fabric.oversubscription, or use rail_optimized, which has a third "
        "level"});
  }
  const Wire wire = nic_wire(spec);
  for (std::uint32_t plane = 0; plane < spec.node.nics; ++plane) {
    const auto switches = add_switches(draft, DeviceKind::LeafSwitch, "leaf", leaves);
    for (std::uint32_t node = 0; node < spec.nodes; ++node) {
      const std::size_t nic = std::size_t{node} * spec.node.nics + plane;
      draft.cable(draft.nics[nic], switches[node / down], wire);
    }
    if (leaves > 1 &&
        !join_two_tiers(spec, switches, uplinks(down, spec.fabric.oversubscription), draft)) {
      throw InputError(
          Problem{"", "/fabric/radix",
                  fmt::format("spines of {} ports are too small for {} leaves", radix, leaves),
                  "raise radix"});
    }
  }
}

}  // namespace trainyard
