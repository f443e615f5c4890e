// Two leaves (top-of-rack switches) for every NIC, as Alibaba's HPN has them (Qian et al.,
// SIGCOMM'24): each of a NIC's two ports has half of its rate and hangs on a leaf of its own plane,
// and the planes meet nowhere but in the NICs. Each plane is rail-optimised. With one leaf dead a
// NIC keeps half of its rate.
//
// HPN itself: 2 x 200 Gb/s a NIC, 8 rails, leaves of 128 downlinks at 200 Gb/s: 1024 GPUs in a unit
// of 16 leaves.

#include "topologies/fabric.hpp"

namespace trainyard {

void draw_dual_tor(const ClusterSpec& spec, Draft& draft) {
  constexpr int kPlanes = 2;
  ClusterSpec plane = spec;
  plane.node.nic = spec.node.nic / kPlanes;
  plane.node.nic_nominal = spec.node.nic_nominal / kPlanes;
  for (int i = 0; i < kPlanes; ++i) draw_rail_optimized(plane, draft);
}

}  // namespace trainyard
