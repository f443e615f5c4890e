// How bytes travel between a GPU and a switch that reduces or copies, and from switch to switch.
//
// Router::route joins GPUs. A switch that takes part in a collective is an end of its own: in a
// node the NVSwitch, on the fabric the switches of a reduction tree. Ends are numbered as in
// sim/workload/workload.hpp: the members of the group by role, then the devices of the cluster.
//
//   const SwitchRoutes routes(place);
//   Route up = routes.between(0, routes.end_of(leaf));
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// The switch that joins the members on one node by NVLink, if one switch does.
[[nodiscard]] std::optional<DeviceId> nv_switch_of(const GroupPlace& place,
                                                   std::span<const std::uint32_t> roles);

class SwitchRoutes {
 public:
  explicit SwitchRoutes(const GroupPlace& place) : place_(place) {}

  [[nodiscard]] std::uint32_t end_of(DeviceId device) const {
    return static_cast<std::uint32_t>(place_.gpus.size()) + device;
  }
  [[nodiscard]] bool is_rank(std::uint32_t end) const { return end < place_.gpus.size(); }

  // REQUIRES: two members; or a member and the NVSwitch of its node, or a switch its NIC is cabled
  // to; or two switches of the fabric that are cabled to each other.
  [[nodiscard]] Route between(std::uint32_t from, std::uint32_t to) const;

  // The switches of the fabric that the NIC of a member is cabled to, ascending. Empty where the
  // group does not leave its node.
  [[nodiscard]] std::vector<DeviceId> entries(std::uint32_t role) const;
  // The NIC by which a member reaches other nodes.
  [[nodiscard]] std::optional<DeviceId> nic_of(std::uint32_t role) const;

 private:
  [[nodiscard]] std::optional<std::uint32_t> abroad(std::uint32_t role) const;
  [[nodiscard]] Route to_nic(std::uint32_t role) const;
  [[nodiscard]] Route from_nic(std::uint32_t role) const;
  [[nodiscard]] Route cables(DeviceId from, DeviceId to) const;

  const GroupPlace& place_;
};

// As hop_route of loads.hpp, for a message that may lead to or from a party: `parties` are those of
// the algorithm, roles from the number of ranks on.
[[nodiscard]] Route party_route(const GroupPlace& place, std::span<const DeviceId> parties,
                                std::uint32_t from, std::uint32_t to);

}  // namespace trainyard
