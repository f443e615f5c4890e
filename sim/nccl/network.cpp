// Network of a group (network_of() of machine.hpp).
#include <algorithm>

#include "sim/nccl/machine.hpp"

namespace trainyard::nccl {

namespace {

// Members on different nodes, as far apart in the group as there are.
std::pair<std::uint32_t, std::uint32_t> far_pair(const GroupPlace& place) {
  const std::uint32_t first = place.gpus.front();
  const auto other = std::find_if(place.gpus.rbegin(), place.gpus.rend(), [&](std::uint32_t gpu) {
    return place.cluster.node_of(gpu) != place.cluster.node_of(first);
  });
  return {first, other == place.gpus.rend() ? first : *other};
}

bool is_inside(LinkKind kind) {
  return kind == LinkKind::NvLink || kind == LinkKind::Pcie || kind == LinkKind::ChipToChip ||
         kind == LinkKind::Socket;
}

// Usable share of a NIC's nominal rate.
double port_share(const Cluster& cluster, const Route& route) {
  for (const RouteHop& hop : route) {
    const Link& link = cluster.link(hop.link);
    if (link.kind == LinkKind::NicPort && link.nominal.value() > 0.0)
      return link.capacity.value() / link.nominal.value();
  }
  return 1.0;
}

}  // namespace

Network network_of(const GroupPlace& place, const Communicator& communicator) {
  Network network;
  if (communicator.nodes == 1) return network;
  const auto [from, to] = far_pair(place);
  const Route route = place.cluster.router().route_rail_aligned(from, to, RouteDetail::Bundles);
  network.latency_us = 0.0;
  for (const RouteHop& hop : route) {
    const Link& link = place.cluster.link(hop.link);
    if (!is_inside(link.kind))
      network.latency_us += 1e6 * hop.fraction * hop.alike * link.latency.value();
  }
  // The communicator's view has the NICs at their nominal rate.
  for (const NodeNic& nic : communicator.node.nics) network.rate += nic.rate;
  network.rate *= port_share(place.cluster, route);
  network.nics = static_cast<std::uint32_t>(communicator.node.nics.size());
  return network;
}

}  // namespace trainyard::nccl
