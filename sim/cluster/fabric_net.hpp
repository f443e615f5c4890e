// The part of a cluster that joins its nodes: the switches between them, and the links among these.
//
//   const FabricNet fabric(topology, parallel_links);
//   search(fabric.net(), fabric.net().in, std::array{fabric.place(leaf)});
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cluster/net.hpp"
#include "sim/cluster/parallel_links.hpp"
#include "sim/cluster/topology.hpp"

namespace trainyard {

// A NIC is part of it only where NICs are cabled to each other (a torus of nodes) and so pass on
// the traffic of others: a NIC with ports on two leaves is no bridge between them. All NICs of a
// leaf share its distances.
class FabricNet {
 public:
  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

  // Every set of parallel links is one link of all its cables.
  FabricNet(const Topology& topology, const ParallelLinks& parallel_links);

  [[nodiscard]] const Net& net() const { return net_; }
  [[nodiscard]] std::uint32_t places() const { return static_cast<std::uint32_t>(devices_.size()); }
  [[nodiscard]] DeviceId device(std::uint32_t place) const { return devices_[place]; }
  // kNoPlace: it is no part of the fabric.
  [[nodiscard]] std::uint32_t place(DeviceId id) const {
    return id < first_device_ ? kNoPlace : place_[id - first_device_];
  }
  [[nodiscard]] bool nics_pass_on() const { return nics_pass_on_; }

 private:
  [[nodiscard]] std::vector<NetLink> every_link(const Topology& topology) const;
  [[nodiscard]] std::vector<NetLink> every_set(const Topology& topology,
                                               const ParallelLinks& parallel_links) const;

  std::vector<DeviceId> devices_;  // by place
  DeviceId first_device_ = 0;
  std::vector<std::uint32_t> place_;  // by device from that one on
  bool nics_pass_on_ = false;
  Net net_;
};

}  // namespace trainyard
