#include "sim/cluster/router.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

// The most hops that all cached trunks may have together: 24 MiB of RouteHop. When a new trunk
// would exceed it, the cache is cleared. Groups are priced one after the other, and groups of the
// same leaves in succession, so a few hundred trunks are in use at a time.
constexpr std::size_t kTrunkHopsMost = std::size_t{1} << 20U;

// The hops of a route over three tiers of switches.
constexpr std::size_t kUsualHops = 12;

void append(Route& route, const Route& more) {
  route.insert(route.end(), more.begin(), more.end());
}

// Sums the fractions of equal links, in the order of their first occurrence.
Route merged(const Route& route) {
  Route result;
  for (const RouteHop& hop : route) {
    const auto known = std::find_if(result.begin(), result.end(),
                                    [&](const RouteHop& other) { return other.link == hop.link; });
    if (known == result.end()) {
      result.push_back(hop);
    } else {
      known->fraction += hop.fraction;
    }
  }
  return result;
}

// Assigns cables to destinations in rotation. A choice among switches spends a digit of the
// destination's number, in the mixed radix of the numbers of cables. The cable among those to the
// chosen switch stays in the number, so that destinations of one switch still differ further up.
// On the way down a flow takes the cable that mirrors the one on its way up: where no two flows
// share a cable up, none share one down.
//
// Example: 4 cables up from a leaf, 2 to each of 2 spines. Destination 6 takes cable 6 mod 4 = 2,
// the first one to the second spine, which keeps (6 / 4) * 2 + 0 = 2 of its number.
class Rotation {
 public:
  explicit Rotation(std::uint64_t destination) : number_(destination) {}

  // The index of the cable to take, with so many links from here to the last switch (0 at the NIC).
  std::uint64_t next(const std::vector<Arc>& arcs, std::size_t remaining) {
    const std::uint64_t count = arcs.size();
    std::uint64_t chosen = number_ % count;
    const auto to_same = [&](const Arc& arc) { return arc.place == arcs[chosen].place; };
    const auto cables = static_cast<std::uint64_t>(std::ranges::count_if(arcs, to_same));
    if (cables == count && remaining < taken_.size()) {
      chosen = taken_[remaining] % count;
    } else {
      const auto position = static_cast<std::uint64_t>(
          std::count_if(arcs.begin(), arcs.begin() + static_cast<std::ptrdiff_t>(chosen), to_same));
      number_ = number_ / count * cables + position;
      taken_.push_back(position);
    }
    return chosen;
  }

 private:
  std::uint64_t number_;
  std::vector<std::uint64_t> taken_;  // from the NIC on, the cable among those to the same device
};

}  // namespace

Router::Router(Topology topology)
    : topology_(std::move(topology)),
      parallel_links_(topology_.facts().routing.kind == Routing::Kind::Ideal
                          ? find_parallel_links(topology_.wiring())
                          : ParallelLinks()),
      nodes_(topology_),
      fabric_(topology_, parallel_links_),
      components_(fabric_components(topology_, nodes_, fabric_)) {}

// A route between nodes has five parts: inside the node to the GPU at which the message leaves,
// over the host side to the NIC of that GPU, over the fabric, over the host side from the NIC of
// the GPU at which the message enters, and inside the node to the receiver. The first and the last
// part are empty where the two GPUs' own NICs reach each other.
Route Router::route(std::uint32_t from_gpu, std::uint32_t to_gpu, RouteDetail detail) const {
  if (topology_.gpus().at(from_gpu) == topology_.gpus().at(to_gpu)) return {};
  if (topology_.node_of(from_gpu) == topology_.node_of(to_gpu)) {
    const Route route = nodes_.between_gpus(from_gpu, to_gpu);
    return route.empty() ? across_fabric({from_gpu, to_gpu}, {}, detail) : route;
  }
  const Crossing ends = crossing(from_gpu, to_gpu);
  Route route = across_fabric(ends, nodes_.between_gpus(from_gpu, ends.leaves_at), detail);
  append(route, nodes_.between_gpus(ends.enters_at, to_gpu));
  return route;
}

Route Router::route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu,
                                 RouteDetail detail) const {
  const std::optional<std::uint32_t> relay = rail_relay(from_gpu, to_gpu);
  if (!relay) return route(from_gpu, to_gpu, detail);
  const std::vector<DeviceId>& gpus = topology_.gpus();
  Route path = nodes_.route(NodePaths::Side::NvLink, gpus.at(from_gpu), gpus.at(*relay));
  if (path.empty()) return route(from_gpu, to_gpu, detail);
  return across_fabric({*relay, to_gpu}, std::move(path), detail);
}

// Returns the GPU of the sender's node with the receiver's index, through which a message can
// change to the receiver's rail.
std::optional<std::uint32_t> Router::rail_relay(std::uint32_t from_gpu,
                                                std::uint32_t to_gpu) const {
  const std::uint32_t node = topology_.node_of(from_gpu);
  const std::uint32_t relay =
      node * topology_.facts().gpus_per_node + topology_.local_index(to_gpu);
  if (node == topology_.node_of(to_gpu) || relay == from_gpu) return std::nullopt;
  if (!components_.join(relay, to_gpu)) return std::nullopt;
  return relay;
}

std::optional<Router::Crossing> Router::rail_crossing(std::uint32_t from_gpu,
                                                      std::uint32_t to_gpu) const {
  const std::optional<std::uint32_t> relay = rail_relay(from_gpu, to_gpu);
  const std::vector<DeviceId>& gpus = topology_.gpus();
  if (!relay || !nodes_.has_route(NodePaths::Side::NvLink, gpus.at(from_gpu), gpus.at(*relay)))
    return {};
  return Crossing{*relay, to_gpu};
}

// Uses the two GPUs' own NICs if these reach each other. Else the sender passes the message to a
// GPU of its node that reaches the receiver's NIC, preferably on the receiver's rail. Else a GPU of
// the receiver's node receives it. Else both nodes relay it. The constructor checked that some pair
// is in one component.
Router::Crossing Router::crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (components_.join(from_gpu, to_gpu)) return {from_gpu, to_gpu};
  if (const auto relay = rail_relay(from_gpu, to_gpu)) return {*relay, to_gpu};
  const std::uint32_t per_node = topology_.facts().gpus_per_node;
  const std::uint32_t source = topology_.node_of(from_gpu) * per_node;
  const std::uint32_t sink = topology_.node_of(to_gpu) * per_node;
  for (std::uint32_t i = 0; i < per_node; ++i)
    if (components_.join(source + i, to_gpu)) return {source + i, to_gpu};
  for (std::uint32_t i = 0; i < per_node; ++i)
    if (components_.join(from_gpu, sink + i)) return {from_gpu, sink + i};
  for (std::uint32_t i = 0; i < per_node; ++i)
    for (std::uint32_t j = 0; j < per_node; ++j)
      if (components_.join(source + i, sink + j)) return {source + i, sink + j};
  TY_CHECK(false, from_gpu, to_gpu);
  return {};
}

Route Router::across_fabric(Crossing ends, Route so_far, RouteDetail detail) const {
  const std::vector<DeviceId>& gpus = topology_.gpus();
  const std::vector<DeviceId>& nics = topology_.nic_of_gpu();
  so_far.reserve(so_far.size() + kUsualHops);
  nodes_.append(so_far, NodePaths::Side::Host, gpus.at(ends.leaves_at), nics[ends.leaves_at]);
  Route route = topology_.facts().routing.kind == Routing::Kind::Ideal
                    ? all_paths(ends, std::move(so_far), detail)
                    : hashed_paths(ends, std::move(so_far));
  nodes_.append(route, NodePaths::Side::Host, nics.at(ends.enters_at), gpus[ends.enters_at]);
  return route;
}

std::optional<std::uint32_t> Router::switches_between(std::uint32_t from_gpu,
                                                      std::uint32_t to_gpu) const {
  const FabricNet& fabric = fabric_.fabric();
  if (fabric_.ports().empty() || !fabric.net().plain || fabric.nics_pass_on()) return std::nullopt;
  const Crossing ends = crossing(from_gpu, to_gpu);
  // With hops of length 1 the distance counts links between switches; the first switch adds one.
  const Distances hops = fabric_.distances(fabric_.ports().target(ends.enters_at));
  return hops[fabric_.nearest_starts(ends.leaves_at, hops).front().place] + 1U;
}

Route Router::all_paths(Crossing ends, Route so_far, RouteDetail detail) const {
  const FabricPorts::Arcs up = fabric_.ports().up(ends.leaves_at);
  const FabricPorts::Arcs down = fabric_.ports().down(ends.enters_at);
  const std::uint32_t target = fabric_.ports().target(ends.enters_at);
  // A switch splits the share that reached it over its cables down to the NIC, in proportion to
  // cables.
  const auto arrive = [&](const Trunk& trunk) {
    append_trunk(so_far, trunk, detail);
    const std::vector<std::uint32_t>& switches = fabric_.ports().targets()[target];
    for (const Arc& arc : down) {
      const double share = trunk.arriving[static_cast<std::size_t>(
          std::ranges::lower_bound(switches, arc.place) - switches.begin())];
      if (arc.link == kNoLink || share == 0.0) continue;
      double cables = 0.0;
      for (const Arc& other : down) cables += other.place == arc.place ? other.cables : 0.0;
      so_far.push_back({arc.link, share * (arc.cables / cables)});
    }
  };
  // A NIC with one cable always starts at the same switch, so all NICs of that leaf share a cached
  // trunk. A NIC with several cables splits the message before the first switch and is searched
  // each time.
  if (up.size() == 1) {
    if (up.front().link != kNoLink) so_far.push_back({up.front().link, 1.0});
    arrive(*cached_trunk(up.front(), target));
  } else {
    const Distances hops = fabric_.distances(target);
    arrive(fabric_.trunk(fabric_.nearest_starts(ends.leaves_at, hops), hops, target));
  }
  return so_far;
}

Route Router::hashed_paths(Crossing ends, Route so_far) const {
  const FabricNet& fabric = fabric_.fabric();
  const FabricPorts& ports = fabric_.ports();
  const Distances hops = fabric_.distances(ports.target(ends.enters_at));
  const Routing& routing = topology_.facts().routing;
  const bool in_turn = routing.kind == Routing::Kind::RoundRobin;
  const std::uint64_t flows = routing.flows_per_connection;
  const std::vector<Arc> starts = fabric_.nearest_starts(ends.leaves_at, hops);
  // Every flow walks from switch to switch along shortest paths and takes one cable at each. ECMP
  // hashes the flow's key with the device, so that a flow always makes the same choice there. Round
  // robin rotates by the destination's number (plus the flow), so that consecutive destinations
  // spread evenly at every tier.
  Route crossed;
  for (std::uint64_t flow = 0; flow < flows; ++flow) {
    const std::uint64_t key =
        mixed(mixed(mixed(mixed(routing.seed) ^ ends.leaves_at) ^ ends.enters_at) ^ flow);
    Rotation rotation((in_turn ? ports.number(ends.enters_at) : 0) + flow);
    const auto pick = [&](const std::vector<Arc>& arcs, DeviceId at, std::size_t remaining) {
      return arcs[in_turn ? rotation.next(arcs, remaining) : mixed(key ^ at) % arcs.size()];
    };
    const auto take = [&](const Arc& arc) {
      if (arc.link != kNoLink) crossed.push_back({arc.link, 1.0 / static_cast<double>(flows)});
    };
    Arc here = pick(starts, topology_.nic_of_gpu()[ends.leaves_at], 0);
    take(here);
    std::vector<Arc> onward;
    while (hops[here.place] > 0) {
      onward.clear();
      std::ranges::copy_if(
          fabric.net().out.of(here.place), std::back_inserter(onward),
          [&](const Arc& arc) { return hops[arc.place] + arc.length == hops[here.place]; });
      here = pick(onward, fabric.device(here.place), hops[here.place]);
      take(here);
    }
    onward.clear();
    std::ranges::copy_if(ports.down(ends.enters_at), std::back_inserter(onward),
                         [&](const Arc& arc) { return arc.place == here.place; });
    take(pick(onward, fabric.device(here.place), 0));
  }
  append(so_far, merged(crossed));
  return so_far;
}

// All NICs of a leaf share one cached trunk to a target.
std::shared_ptr<const Trunk> Router::cached_trunk(const Arc& start, std::uint32_t target) const {
  const std::uint64_t key = (std::uint64_t{start.place} << 32U) | target;
  const std::scoped_lock lock(mutex_);
  if (const auto known = trunks_.find(key); known != trunks_.end()) return known->second;
  const Distances hops = fabric_.distances(target);
  TY_CHECK(hops[start.place] != kUnreachable, start.place, target);
  const Arc at_switch{.place = start.place};
  // The trunk starts at the switch itself, without a link, so it does not depend on the NIC.
  auto found = std::make_shared<const Trunk>(fabric_.trunk(std::span(&at_switch, 1), hops, target));
  if (trunk_hops_ + found->parallel_links.size() > kTrunkHopsMost) {
    trunks_.clear();
    trunk_hops_ = 0;
  }
  trunk_hops_ += found->parallel_links.size();
  return trunks_.emplace(key, std::move(found)).first->second;
}

void Router::append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const {
  for (const RouteHop& hop : trunk.parallel_links) {
    if (detail == RouteDetail::ParallelLinks || hop.parallel_count == 1) {
      route.push_back(hop);
    } else {
      for (const std::uint32_t link : parallel_links_.links(hop.link))
        route.push_back({LinkId{link}, hop.fraction});
    }
  }
}

}  // namespace trainyard
