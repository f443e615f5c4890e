// The part of a cluster that joins its nodes: the switches of the fabric and the links between
// them.
//
//    const FabricNet fabric(topology, parallel_links);
//    search(fabric.net(), fabric.net().in, std::array{fabric.place(leaf)});
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cluster/net.hpp"
#include "sim/cluster/parallel_links.hpp"
#include "sim/cluster/topology.hpp"

namespace trainyard {

// The fabric as a Net. A device has an index in it, its "place". A NIC belongs to it only where
// NICs are cabled to each other (a torus of nodes) and therefore relay the traffic of others. A NIC
// with ports on two leaves does not bridge them. A NIC outside of the fabric needs no entry: all
// NICs of a leaf share the distances of the leaf.
class FabricNet {
 public:
  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

  // Every set of parallel links becomes one link with the sum of their cables.
  FabricNet(const Topology& topology, const ParallelLinks& parallel_links);

  [[nodiscard]] const Net& net() const { return net_; }
  [[nodiscard]] std::uint32_t places() const { return static_cast<std::uint32_t>(devices_.size()); }
  [[nodiscard]] DeviceId device(std::uint32_t place) const { return devices_[place]; }
  // Returns kNoPlace if the device is not part of the fabric.
  [[nodiscard]] std::uint32_t place(DeviceId id) const {
    return id < first_device_ ? kNoPlace : place_[id - first_device_];
  }
  [[nodiscard]] bool nics_pass_on() const { return nics_pass_on_; }

 private:
  [[nodiscard]] std::vector<NetLink> every_link(const Topology& topology) const;
  [[nodiscard]] std::vector<NetLink> every_set(const Topology& topology,
                                               const ParallelLinks& parallel_links) const;

  std::vector<DeviceId> devices_;  // by index in the fabric
  DeviceId first_device_ = 0;
  std::vector<std::uint32_t> place_;  // by device from first_device_ on
  bool nics_pass_on_ = false;
  Net net_;
};

}  // namespace trainyard
