// A cluster being drawn, while nodes and fabrics add their devices and cables to it.
//
//   Draft draft;
//   DeviceId leaf = draft.blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
//   draft.cable(nic, leaf, wire);   // both directions
#pragma once

#include <array>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

struct Draft {
  Blueprint blueprint = {};
  std::vector<DeviceId> gpus = {};                     // in rank order
  std::vector<DeviceId> nics = {};                     // node by node
  std::array<std::uint32_t, kDeviceKinds> switches{};  // fabric switches so far, by kind

  void cable(DeviceId a, DeviceId b, const Wire& wire) { blueprint.cable(a, b, wire); }
};

// Adds the switches and cables of the spec's fabric over the NICs of the draft. REQUIRES:
// draft.nics holds spec.nodes * spec.node.nics NICs, node by node. Throws InputError, with a
// pointer relative to the cluster object, when the fabric cannot hold them.
void draw_fabric(const ClusterSpec& spec, Draft& draft);

// The same for each kind.
void draw_fabric(const SingleSwitch& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const RailOptimized& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const FatTree& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const FatTree3& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const MultiPlane& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const DualTor& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const Torus& fabric, const ClusterSpec& spec, Draft& draft);
void draw_fabric(const Dragonfly& fabric, const ClusterSpec& spec, Draft& draft);

}  // namespace trainyard
