// A cluster being drawn: the graph while nodes and fabrics add their devices and cables to it.
//
//   Draft draft;
//   DeviceId leaf = draft.add({.kind = DeviceKind::LeafSwitch, .name = "leaf 0"});
//   draft.cable(nic, leaf, wire);   // both directions
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "sim/graph/cluster.hpp"

namespace trainyard {

// A full-duplex wire: what both of its directions have in common.
struct Wire {
  LinkKind kind = LinkKind::NvLink;
  BytesPerSecond capacity = {};
  BytesPerSecond nominal = {};
  Seconds latency = {};
  std::uint32_t cables = 1;  // the rates are those of all of them
};

struct Draft {
  std::unique_ptr<ClusterGraph> drawn = std::make_unique<ClusterGraph>();  // for the cluster
  ClusterGraph& graph = *drawn;
  std::vector<DeviceId> gpus = {};                     // in rank order
  std::vector<DeviceId> nics = {};                     // node by node
  std::array<std::uint32_t, kDeviceKinds> switches{};  // fabric switches so far, by kind

  DeviceId add(Device device) {
    return static_cast<DeviceId>(boost::add_vertex(std::move(device), graph));
  }
  void cable(DeviceId a, DeviceId b, const Wire& wire) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      boost::add_edge(from, to,
                      Link{.kind = wire.kind,
                           .from = from,
                           .to = to,
                           .capacity = wire.capacity,
                           .nominal = wire.nominal,
                           .latency = wire.latency,
                           .cables = wire.cables},
                      graph);
    }
  }
};

}  // namespace trainyard
