#include "sim/collectives/switch_routes.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard {

std::optional<DeviceId> nv_switch_of(const GroupPlace& place,
                                     std::span<const std::uint32_t> roles) {
  std::optional<DeviceId> known;
  if (roles.size() < 2) return known;
  for (std::size_t i = 1; i < roles.size(); ++i) {
    const Route route = place.cluster.router().route(place.gpus[roles[0]], place.gpus[roles[i]]);
    if (route.size() != 2) return {};
    const DeviceId through = place.cluster.link(route.front().link).to;
    if (place.cluster.device(through).kind != DeviceKind::NvSwitch) return {};
    if (known && *known != through) return {};
    known = through;
  }
  return known;
}

Route SwitchRoutes::between(std::uint32_t from, std::uint32_t to) const {
  const auto device = [&](std::uint32_t end) { return end - end_of(0); };
  if (is_rank(from) && is_rank(to)) return hop_route(place_, from, to);
  if (!is_rank(from) && !is_rank(to)) return cables(device(from), device(to));
  const std::uint32_t role = is_rank(from) ? from : to;
  const DeviceId party = device(is_rank(from) ? to : from);
  if (!is_fabric_switch(place_.cluster.device(party).kind)) {
    const DeviceId gpu = place_.cluster.gpus()[place_.gpus[role]];
    return is_rank(from) ? cables(gpu, party) : cables(party, gpu);
  }
  const std::optional<DeviceId> nic = nic_of(role);
  TY_CHECK(nic.has_value(), role);
  Route route = is_rank(from) ? to_nic(role) : cables(party, *nic);
  const Route rest = is_rank(from) ? cables(*nic, party) : from_nic(role);
  route.insert(route.end(), rest.begin(), rest.end());
  return route;
}

std::vector<DeviceId> SwitchRoutes::entries(std::uint32_t role) const {
  std::vector<DeviceId> found;
  const std::optional<DeviceId> nic = nic_of(role);
  if (!nic) return found;
  for (const Link link : place_.cluster.links_from(*nic))
    if (link.kind == LinkKind::NicPort && is_fabric_switch(place_.cluster.device(link.to).kind))
      found.push_back(link.to);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::optional<DeviceId> SwitchRoutes::nic_of(std::uint32_t role) const {
  const std::optional<std::uint32_t> other = abroad(role);
  if (!other) return {};
  const Route route = place_.cluster.router().route(place_.gpus[role], place_.gpus[*other]);
  for (const RouteHop& hop : route) {
    const Link& link = place_.cluster.link(hop.link);
    if (link.kind == LinkKind::NicPort) return link.from;
  }
  return {};
}

// Any member of another node: the way to one's own NIC is the same to all of them.
std::optional<std::uint32_t> SwitchRoutes::abroad(std::uint32_t role) const {
  const std::uint32_t node = place_.cluster.node_of(place_.gpus[role]);
  for (std::uint32_t other = 0; other < place_.gpus.size(); ++other)
    if (place_.cluster.node_of(place_.gpus[other]) != node) return other;
  return {};
}

Route SwitchRoutes::to_nic(std::uint32_t role) const {
  Route route = place_.cluster.router().route(place_.gpus[role], place_.gpus[abroad(role).value()]);
  const auto port = std::find_if(route.begin(), route.end(), [&](const RouteHop& hop) {
    return place_.cluster.link(hop.link).kind == LinkKind::NicPort;
  });
  route.erase(port, route.end());
  return route;
}

Route SwitchRoutes::from_nic(std::uint32_t role) const {
  Route route = place_.cluster.router().route(place_.gpus[abroad(role).value()], place_.gpus[role]);
  const auto port = std::find_if(route.rbegin(), route.rend(), [&](const RouteHop& hop) {
    return place_.cluster.link(hop.link).kind == LinkKind::NicPort;
  });
  route.erase(route.begin(), port.base());
  return route;
}

// All links from one to the other, in equal shares per cable.
Route SwitchRoutes::cables(DeviceId from, DeviceId to) const {
  Route route;
  double all = 0.0;
  for (const Link link : place_.cluster.links_from(from)) {
    if (link.to != to) continue;
    route.push_back({.link = link.id, .fraction = static_cast<double>(link.cables)});
    all += link.cables;
  }
  TY_CHECK(!route.empty(), from, to);
  for (RouteHop& hop : route) hop.fraction /= all;
  return route;
}

Route party_route(const GroupPlace& place, std::span<const DeviceId> parties, std::uint32_t from,
                  std::uint32_t to) {
  const SwitchRoutes routes(place);
  const auto ranks = static_cast<std::uint32_t>(place.gpus.size());
  const auto end = [&](std::uint32_t role) {
    return role < ranks ? role : routes.end_of(parties[role - ranks]);
  };
  return routes.between(end(from), end(to));
}

}  // namespace trainyard
