#include "sim/cluster/fabric_count.hpp"

namespace trainyard {

FabricCount count_fabric(const Cluster& cluster) {
  FabricCount count;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    const DeviceKind kind = cluster.device(id).kind;
    if (kind == DeviceKind::LeafSwitch) ++count.leaves;
    if (kind == DeviceKind::SpineSwitch) ++count.spines;
    if (kind == DeviceKind::CoreSwitch) ++count.cores;
  }
  // A cable is two links; counted from its lower end.
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    if (link.kind == LinkKind::NicPort && from == DeviceKind::Nic) count.node_cables += link.cables;
    if (link.kind == LinkKind::LeafSpine && from == DeviceKind::LeafSwitch) {
      count.leaf_spine_cables += link.cables;
    }
    if (link.kind == LinkKind::SpineCore && from == DeviceKind::SpineSwitch) {
      count.spine_core_cables += link.cables;
    }
    // Neighbours stand on one tier: one direction of the two is counted.
    if (link.kind == LinkKind::Local && link.from < link.to) count.local_cables += link.cables;
    if (link.kind == LinkKind::Global && link.from < link.to) count.global_cables += link.cables;
  }
  return count;
}

}  // namespace trainyard
