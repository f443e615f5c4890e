// Planes, as DeepSeek builds them (DeepSeek-V3, ISCA'25): NIC q of every node is in plane q, and
// each plane is a two-level fat-tree of its own. With 64 ports a plane holds 64^2/2 = 2048 nodes,
// so 8 planes hold 16 384 GPUs in two levels. No cable joins two planes: a GPU of the node passes
// a message on over NVLink (PXN).

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "topologies/clos.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

void draw_fabric(const MultiPlane& fabric, const ClusterSpec& spec, Draft& draft) {
  const std::uint32_t radix = fabric.radix;
  const std::uint32_t down = downlinks(radix, fabric.oversubscription);
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
    if (leaves > 1 && !join_two_tiers(spec, {radix, fabric.hop_latency}, switches,
                                      uplinks(down, fabric.oversubscription), draft)) {
      throw InputError(
          Problem{"", "/fabric/radix",
                  fmt::format("spines of {} ports are too small for {} leaves", radix, leaves),
                  "raise radix"});
    }
  }
}

// Two leaves (top-of-rack switches) for every NIC, as Alibaba's HPN has them (Qian et al.,
// SIGCOMM'24): each of a NIC's two ports has half of its rate and hangs on a leaf of its own plane,
// and the planes meet nowhere but in the NICs. Each plane is rail-optimised. With one leaf dead a
// NIC keeps half of its rate.
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
