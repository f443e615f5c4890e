// A cluster being drawn, while nodes and fabrics add their devices and cables to it.
//
//   Draft draft;
//   DeviceId leaf = draft.blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
//   draft.cable(nic, leaf, wire);   // both directions
#pragma once

#include <array>
#include <vector>

#include "sim/cluster/blueprint.hpp"

namespace trainyard {

struct Draft {
  Blueprint blueprint = {};
  std::vector<DeviceId> gpus = {};                     // in rank order
  std::vector<DeviceId> nics = {};                     // node by node
  std::array<std::uint32_t, kDeviceKinds> switches{};  // fabric switches so far, by kind

  void cable(DeviceId a, DeviceId b, const Wire& wire) { blueprint.cable(a, b, wire); }
};

}  // namespace trainyard
