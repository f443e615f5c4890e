#include "sim/collectives/switches.hpp"

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/check.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard {

std::optional<DeviceId> nv_switch_of(const PlacedGroup& placed,
                                     std::span<const std::uint32_t> group_ranks) {
  std::optional<DeviceId> known;
  if (group_ranks.size() < 2) return known;
  // Every route from the first member must consist of two links through the same NVSwitch.
  for (std::size_t i = 1; i < group_ranks.size(); ++i) {
    const Route route =
        placed.cluster.router().route(placed.gpus[group_ranks[0]], placed.gpus[group_ranks[i]]);
    if (route.size() != 2) return {};
    const DeviceId through = placed.cluster.link(route.front().link).to;
    if (placed.cluster.device(through).kind != DeviceKind::NvSwitch) return {};
    if (known && *known != through) return {};
    known = through;
  }
  return known;
}

Route SwitchRoutes::between(std::uint32_t from, std::uint32_t to) const {
  const auto device = [&](std::uint32_t end) { return DeviceId{end - end_of(0)}; };
  if (is_rank(from) && is_rank(to)) return hop_route(place_, from, to);
  if (!is_rank(from) && !is_rank(to)) return cables(device(from), device(to));
  const std::uint32_t group_rank = is_rank(from) ? from : to;
  const DeviceId switch_device = device(is_rank(from) ? to : from);
  if (!is_fabric_switch(place_.cluster.device(switch_device).kind)) {
    const DeviceId gpu = place_.cluster.gpus()[place_.gpus[group_rank]];
    return is_rank(from) ? cables(gpu, switch_device) : cables(switch_device, gpu);
  }
  // A fabric switch is reached through the NIC of the member.
  const std::optional<DeviceId> nic = nic_of(group_rank);
  TY_CHECK(nic.has_value(), group_rank);
  Route route = is_rank(from) ? to_nic(group_rank) : cables(switch_device, *nic);
  const Route rest = is_rank(from) ? cables(*nic, switch_device) : from_nic(group_rank);
  route.insert(route.end(), rest.begin(), rest.end());
  return route;
}

// The fabric switches to which the member's NIC is cabled, in ascending order.
std::vector<DeviceId> SwitchRoutes::entries(std::uint32_t group_rank) const {
  std::vector<DeviceId> found;
  const std::optional<DeviceId> nic = nic_of(group_rank);
  if (!nic) return found;
  for (const Link link : place_.cluster.links_from(*nic))
    if (link.kind == LinkKind::NicPort && is_fabric_switch(place_.cluster.device(link.to).kind))
      found.push_back(link.to);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// The NIC on the member's route to another node.
std::optional<DeviceId> SwitchRoutes::nic_of(std::uint32_t group_rank) const {
  const std::optional<std::uint32_t> other = member_on_other_node(group_rank);
  if (!other) return {};
  const Route route = place_.cluster.router().route(place_.gpus[group_rank], place_.gpus[*other]);
  for (const RouteHop& hop : route) {
    const Link& link = place_.cluster.link(hop.link);
    if (link.kind == LinkKind::NicPort) return link.from;
  }
  return {};
}

// A member on another node. Planes are joined within nodes only, so a member uses its own NIC to
// reach its local index on another node. Where the group has no such member, any other will do.
std::optional<std::uint32_t> SwitchRoutes::member_on_other_node(std::uint32_t group_rank) const {
  const Cluster& cluster = place_.cluster;
  const std::uint32_t gpu = place_.gpus[group_rank];
  std::optional<std::uint32_t> any;
  for (std::uint32_t other = 0; other < place_.gpus.size(); ++other) {
    const std::uint32_t there = place_.gpus[other];
    if (cluster.node_of(there) == cluster.node_of(gpu)) continue;
    if (cluster.local_index(there) == cluster.local_index(gpu)) return other;
    if (!any) any = other;
  }
  return any;
}

// The links of the member's route to another node before the port of its NIC.
Route SwitchRoutes::to_nic(std::uint32_t group_rank) const {
  Route route = place_.cluster.router().route(
      place_.gpus[group_rank], place_.gpus[member_on_other_node(group_rank).value()]);
  const auto port = std::find_if(route.begin(), route.end(), [&](const RouteHop& hop) {
    return place_.cluster.link(hop.link).kind == LinkKind::NicPort;
  });
  route.erase(port, route.end());
  return route;
}

// The links of a route from another node after the port of the member's NIC.
Route SwitchRoutes::from_nic(std::uint32_t group_rank) const {
  Route route = place_.cluster.router().route(place_.gpus[member_on_other_node(group_rank).value()],
                                              place_.gpus[group_rank]);
  const auto port = std::find_if(route.rbegin(), route.rend(), [&](const RouteHop& hop) {
    return place_.cluster.link(hop.link).kind == LinkKind::NicPort;
  });
  route.erase(route.begin(), port.base());
  return route;
}

// All links from one device to another. Each cable carries an equal share.
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

Route hop_between(const PlacedGroup& placed, std::span<const DeviceId> switches, std::uint32_t from,
                  std::uint32_t to) {
  const SwitchRoutes routes(placed);
  const std::uint32_t ranks = ranks_of(placed);
  const auto end = [&](std::uint32_t group_rank) {
    return group_rank < ranks ? group_rank : routes.end_of(switches[group_rank - ranks]);
  };
  return routes.between(end(from), end(to));
}

// A message out of a switch meets all messages in its `after`, which arrived at this switch. The
// connected components of this relation (union-find) are the relays.
std::vector<std::uint32_t> relay_keys(std::span<const Message> messages, std::uint32_t ranks) {
  boost::disjoint_sets_with_storage<> sets(messages.size());
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    // Example: ranks 0 to 2 and switch 3. Messages 0 to 2 carry each rank's part to the switch, and
    // message 3 carries the sum to rank 1 (after 0, 1, 2). They form one relay with key 2.
    if (messages[index].from < ranks) continue;
    for (const std::uint32_t before : messages[index].after) sets.union_set(index, before);
  }
  std::vector<std::uint32_t> last(messages.size(), kNone);  // by set
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    const Message& message = messages[index];
    if (message.from < ranks && message.to >= ranks) last[sets.find_set(index)] = index;
  }
  std::vector<std::uint32_t> keys(messages.size(), kNone);
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    const Message& message = messages[index];
    if (message.from < ranks && message.to < ranks) continue;
    keys[index] = last[sets.find_set(index)];
    TY_CHECK(keys[index] != kNone, index);
    TY_CHECK(message.to >= ranks || index > keys[index], index);
  }
  return keys;
}

// The relays in the order of their keys. One receiver makes it a reduce, and one sender a
// broadcast.
std::vector<Relay> relays_of(std::span<const Message> messages, std::span<const std::uint32_t> keys,
                             std::uint32_t ranks) {
  std::map<std::uint32_t, Relay> by_key;
  for (std::uint32_t index = 0; index < messages.size(); ++index)
    if (keys[index] != kNone) by_key[keys[index]].messages.push_back(index);
  std::vector<Relay> relays;
  for (auto& [key, relay] : by_key) {
    std::set<std::uint32_t> senders;
    std::set<std::uint32_t> receivers;
    for (const std::uint32_t index : relay.messages) {
      if (messages[index].from < ranks) senders.insert(messages[index].from);
      if (messages[index].to < ranks) receivers.insert(messages[index].to);
    }
    relay.key = key;
    std::ranges::set_union(senders, receivers, std::back_inserter(relay.members));
    if (receivers.size() == 1) relay.op = CollectiveOp::Reduce;
    if (senders.size() == 1) relay.op = CollectiveOp::Broadcast;
    relays.push_back(std::move(relay));
  }
  return relays;
}

// Members are numbered by their position in the relay, and switches follow the members.
RelayCall relay_call(std::span<const Message> messages, const Relay& relay,
                     std::span<const DeviceId> switches, const Cut& cut, const Call& call) {
  RelayCall made{.op = relay.op, .dtype = dtype_of(call)};
  const auto end = [&](std::uint32_t group_rank) {
    const auto members = static_cast<std::uint32_t>(relay.members.size());
    if (group_rank >= cut.ranks) return members + switches[group_rank - cut.ranks];
    return static_cast<std::uint32_t>(std::ranges::lower_bound(relay.members, group_rank) -
                                      relay.members.begin());
  };
  for (const std::uint32_t index : relay.messages) {
    const std::int64_t bytes = whole_bytes_of(messages[index], cut, call);
    made.hops.push_back(
        {.from = end(messages[index].from), .to = end(messages[index].to), .bytes = bytes});
    made.bytes = std::max(made.bytes, bytes);
  }
  return made;
}

std::vector<Phase> relay_phases(const RelayCall& call, const PlacedGroup& placed) {
  const SwitchRoutes routes(placed);
  LoadSum loads(placed.cluster);
  Phase phase;
  bool across = false;
  for (const RelayHop& hop : call.hops) {
    // All hops of the relay load their links at the same time, so their sum is one flow.
    loads.add(routes.between(hop.from, hop.to), static_cast<double>(hop.bytes));
    if (!routes.is_rank(hop.from)) continue;
    const DeviceId switch_device{hop.to - routes.end_of(0)};
    // Only a switch of the fabric belongs to no node.
    across = across || placed.cluster.device(switch_device).node < 0;
  }
  std::vector<std::uint32_t> members(placed.gpus.size());
  std::iota(members.begin(), members.end(), 0U);
  if (!call.follows)
    phase.latency =
        across ? fabric_latency(placed, members) : placed.cluster.facts().latency.intra_step;
  loads.take_into(phase.flows);
  return {std::move(phase)};
}

}  // namespace trainyard
