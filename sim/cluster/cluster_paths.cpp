// The ways from GPU to GPU: over all shortest paths or with flows dealt to one each, and what a way
// costs in latency.
#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

namespace {

void append(Route& route, const Route& more) {
  route.insert(route.end(), more.begin(), more.end());
}

// Links once each, in the order they were first met.
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

}  // namespace

// ---- routes

Route Cluster::route(std::uint32_t from_gpu, std::uint32_t to_gpu, RouteDetail detail) const {
  if (gpus_.at(from_gpu) == gpus_.at(to_gpu)) return {};
  if (node_of(from_gpu) == node_of(to_gpu)) {
    Route route = in_node(from_gpu, to_gpu);
    return route.empty() ? across_fabric({from_gpu, to_gpu}, {}, detail) : route;
  }
  const Crossing ends = crossing(from_gpu, to_gpu);
  Route route = across_fabric(ends, in_node(from_gpu, ends.leaves_at), detail);
  append(route, in_node(ends.enters_at, to_gpu));
  return route;
}

Route Cluster::route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu,
                                  RouteDetail detail) const {
  const std::optional<std::uint32_t> relay = rail_relay(from_gpu, to_gpu);
  if (!relay) return route(from_gpu, to_gpu, detail);
  Route path = node_route(Side::NvLink, gpus_.at(from_gpu), gpus_.at(*relay));
  if (path.empty()) return route(from_gpu, to_gpu, detail);
  return across_fabric({*relay, to_gpu}, std::move(path), detail);
}

// The GPU of the sender's node with the receiver's index, where a message could change to its rail.
std::optional<std::uint32_t> Cluster::rail_relay(std::uint32_t from_gpu,
                                                 std::uint32_t to_gpu) const {
  const std::uint32_t node = node_of(from_gpu);
  const std::uint32_t relay = node * facts_.gpus_per_node + local_index(to_gpu);
  if (node == node_of(to_gpu) || relay == from_gpu) return std::nullopt;
  if (component(relay) != component(to_gpu)) return std::nullopt;
  return relay;
}

// Own NIC to own NIC where they reach each other. Else the sender hands over to a GPU of its node
// that reaches the receiver's NIC, preferably on the receiver's rail; else a GPU of the receiver's
// node takes the message in.
Cluster::Crossing Cluster::crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const auto joined = [&](std::uint32_t a, std::uint32_t b) {
    return component(a) == component(b);
  };
  if (components_ == 1 || joined(from_gpu, to_gpu)) return {from_gpu, to_gpu};
  if (const auto relay = rail_relay(from_gpu, to_gpu)) return {*relay, to_gpu};
  const std::uint32_t source = node_of(from_gpu) * facts_.gpus_per_node;
  const std::uint32_t sink = node_of(to_gpu) * facts_.gpus_per_node;
  for (std::uint32_t i = 0; i < facts_.gpus_per_node; ++i) {
    if (joined(source + i, to_gpu)) return {source + i, to_gpu};
  }
  for (std::uint32_t i = 0; i < facts_.gpus_per_node; ++i) {
    if (joined(from_gpu, sink + i)) return {from_gpu, sink + i};
  }
  for (std::uint32_t i = 0; i < facts_.gpus_per_node; ++i) {
    for (std::uint32_t j = 0; j < facts_.gpus_per_node; ++j) {
      if (joined(source + i, sink + j)) return {source + i, sink + j};
    }
  }
  TY_CHECK(false, from_gpu, to_gpu);
  return {};
}

Route Cluster::across_fabric(Crossing ends, Route so_far, RouteDetail detail) const {
  append(so_far, node_route(Side::Host, gpus_.at(ends.leaves_at), nic_of_gpu_[ends.leaves_at]));
  Route route = facts_.routing.kind == Routing::Kind::Ideal
                    ? all_paths(ends, std::move(so_far), detail)
                    : dealt_paths(ends, std::move(so_far));
  append(route, node_route(Side::Host, nic_of_gpu_.at(ends.enters_at), gpus_[ends.enters_at]));
  return route;
}

std::optional<std::uint32_t> Cluster::switches_between(std::uint32_t from_gpu,
                                                       std::uint32_t to_gpu) const {
  if (!only_switches_) return std::nullopt;
  const Crossing ends = crossing(from_gpu, to_gpu);
  const std::uint32_t target = target_[ends.enters_at];
  const Hops here = searched(target);
  const Distances hops = distances(target, here);
  return hops[nearest_starts(ends.leaves_at, hops).front().place] + 1U;
}

// Of a NIC's cables those that start a shortest path.
std::vector<Arc> Cluster::nearest_starts(std::uint32_t gpu, const Distances& hops) const {
  std::uint16_t nearest = kUnreachable;
  for (const Arc& arc : up(gpu)) nearest = std::min(nearest, hops[arc.place]);
  TY_CHECK(nearest != kUnreachable);
  std::vector<Arc> starts;
  for (const Arc& arc : up(gpu)) {
    if (hops[arc.place] == nearest) starts.push_back(arc);
  }
  return starts;
}

Route Cluster::all_paths(Crossing ends, Route so_far, RouteDetail detail) const {
  const Arcs up = this->up(ends.leaves_at);
  const Arcs down = this->down(ends.enters_at);
  const std::uint32_t target = target_[ends.enters_at];
  const auto arrive = [&](const Trunk& trunk) {
    append_trunk(so_far, trunk, detail);
    const std::vector<std::uint32_t>& switches = targets_[target];
    for (const Arc& arc : down) {
      const double share = trunk.arriving[static_cast<std::size_t>(
          std::ranges::lower_bound(switches, arc.place) - switches.begin())];
      if (arc.link == kNoLink || share == 0.0) continue;
      double cables = 0.0;
      for (const Arc& other : down) cables += other.place == arc.place ? other.cables : 0.0;
      so_far.push_back({arc.link, share * (arc.cables / cables)});
    }
  };
  if (up.size() == 1) {
    if (up.front().link != kNoLink) so_far.push_back({up.front().link, 1.0});
    arrive(*trunk(up.front(), target));
  } else {
    const Hops here = searched(target);
    const Distances hops = distances(target, here);
    arrive(trunk_to(nearest_starts(ends.leaves_at, hops), hops, target));
  }
  return so_far;
}

Route Cluster::dealt_paths(Crossing ends, Route so_far) const {
  const std::uint32_t target = target_[ends.enters_at];
  const Hops here_searched = searched(target);
  const Distances hops = distances(target, here_searched);
  const Routing& routing = facts_.routing;
  const bool in_turn = routing.kind == Routing::Kind::RoundRobin;
  const std::uint64_t flows = routing.flows_per_connection;
  const std::vector<Arc> starts = nearest_starts(ends.leaves_at, hops);
  Route crossed;
  for (std::uint64_t flow = 0; flow < flows; ++flow) {
    const std::uint64_t key =
        mixed(mixed(mixed(mixed(routing.seed) ^ ends.leaves_at) ^ ends.enters_at) ^ flow);
    std::uint64_t turn = (in_turn ? port_number_[ends.enters_at] : 0) + flow;
    const auto pick = [&](const std::vector<Arc>& arcs, DeviceId at) {
      const std::uint64_t count = arcs.size();
      if (count == 1) return arcs.front();
      const std::uint64_t draw =
          routing.kind == Routing::Kind::Ecmp ? mixed(key ^ at) % count : turn % count;
      turn /= count;
      return arcs[draw];
    };
    const auto take = [&](const Arc& arc) {
      if (arc.link != kNoLink) crossed.push_back({arc.link, 1.0 / static_cast<double>(flows)});
    };
    Arc here = pick(starts, nic_of_gpu_[ends.leaves_at]);
    take(here);
    std::vector<Arc> onward;
    while (hops[here.place] > 0) {
      onward.clear();
      for (const Arc& arc : fabric_.out.of(here.place)) {
        if (hops[arc.place] + arc.length == hops[here.place]) onward.push_back(arc);
      }
      here = pick(onward, fabric_devices_[here.place]);
      take(here);
    }
    onward.clear();
    for (const Arc& arc : down(ends.enters_at)) {
      if (arc.place == here.place) onward.push_back(arc);
    }
    take(pick(onward, fabric_devices_[here.place]));
  }
  append(so_far, merged(crossed));
  return so_far;
}

// ---- latency

Seconds Cluster::extra_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  if (node_of(from_gpu) == node_of(to_gpu)) return node_latency(from_gpu, to_gpu);
  const Crossing ends = crossing(from_gpu, to_gpu);
  return fabric_latency(ends.leaves_at, ends.enters_at);
}

Seconds Cluster::extra_latency_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const std::optional<std::uint32_t> relay = rail_relay(from_gpu, to_gpu);
  if (!relay) return extra_latency(from_gpu, to_gpu);
  return reaches(Side::NvLink, gpus_.at(from_gpu), gpus_.at(*relay))
             ? fabric_latency(*relay, to_gpu)
             : extra_latency(from_gpu, to_gpu);
}

Seconds Cluster::fabric_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const std::uint32_t target = target_.at(to_gpu);
  const Hops here = searched(target);
  const Distances hops = distances(target, here);
  double between = 0.0;
  for (const Arc& arc : nearest_starts(from_gpu, hops)) {
    double way = 0.0;
    if (hop_latency_s_) {
      way = *hop_latency_s_ * hops[arc.place];
    } else {
      way = !row_of_target_.empty() ? fabric_latency_[target][arc.place]
                                    : fabric_latencies(target, hops)[arc.place];
    }
    between = std::max(between, way);
  }
  const double whole = slowest(Way::Up, from_gpu) + between + slowest(Way::Down, to_gpu);
  return Seconds{std::max(0.0, whole - reference_latency_s_)};
}

}  // namespace trainyard
