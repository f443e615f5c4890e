// The ways through a cluster: distances, spreading over all shortest paths, dealing flows to one
// each, and what a way costs in latency.
#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/graph/cluster.hpp"

namespace trainyard {

namespace {

void append(Route& route, const Route& more) {
  route.insert(route.end(), more.begin(), more.end());
}

// A hash in which every input bit reaches every output bit: the finaliser of splitmix64 (Steele,
// Lea, Flood 2014). Chained, it gives each (seed, source, destination, flow, switch) a draw of its
// own, in whatever order they are asked for.
std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = (state ^ value) + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
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
  Route path = shortest_paths(nvlink_, gpus_.at(from_gpu), gpus_.at(*relay));
  if (path.empty()) return route(from_gpu, to_gpu, detail);
  return across_fabric({*relay, to_gpu}, std::move(path), detail);
}

// The GPU of the sender's node with the receiver's index, where a message could change to its rail.
std::optional<std::uint32_t> Cluster::rail_relay(std::uint32_t from_gpu,
                                                 std::uint32_t to_gpu) const {
  const std::uint32_t node = node_of(from_gpu);
  const std::uint32_t relay = node * facts_.gpus_per_node + local_index(to_gpu);
  if (node == node_of(to_gpu) || relay == from_gpu) return std::nullopt;
  if (ports_.at(relay).component != ports_.at(to_gpu).component) return std::nullopt;
  return relay;
}

Route Cluster::in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  Route route = shortest_paths(nvlink_, gpus_.at(from_gpu), gpus_.at(to_gpu));
  return route.empty() ? shortest_paths(host_, gpus_[from_gpu], gpus_[to_gpu]) : route;
}

// Breadth first over PCIe and chip-to-chip links that lead through no GPU and no NIC; among CPUs
// equally near the one first wired.
std::optional<DeviceId> Cluster::host_of(std::uint32_t gpu) const {
  std::vector<DeviceId> seen{gpus_.at(gpu)};
  for (std::size_t next = 0; next < seen.size(); ++next) {
    if (device(seen[next]).kind == DeviceKind::Cpu) return seen[next];
    for (const auto edge : boost::make_iterator_range(boost::out_edges(seen[next], *graph_))) {
      const Link& link = (*graph_)[edge];
      const DeviceKind kind = device(link.to).kind;
      const bool wired = link.kind == LinkKind::Pcie || link.kind == LinkKind::ChipToChip;
      const bool passes = kind == DeviceKind::PcieSwitch || kind == DeviceKind::Cpu;
      if (wired && passes && std::ranges::find(seen, link.to) == seen.end())
        seen.push_back(link.to);
    }
  }
  return std::nullopt;
}

Route Cluster::route_to_host(std::uint32_t gpu) const {
  const std::optional<DeviceId> host = host_of(gpu);
  return host ? shortest_paths(host_, gpus_[gpu], *host) : Route{};
}

Route Cluster::route_from_host(std::uint32_t gpu) const {
  const std::optional<DeviceId> host = host_of(gpu);
  return host ? shortest_paths(host_, *host, gpus_[gpu]) : Route{};
}

// Own NIC to own NIC where they reach each other. Else the sender hands over to a GPU of its node
// that reaches the receiver's NIC, preferably on the receiver's rail; else a GPU of the receiver's
// node takes the message in.
Cluster::Crossing Cluster::crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const auto joined = [&](std::uint32_t a, std::uint32_t b) {
    return ports_[a].component == ports_[b].component;
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
  const Port& source = ports_.at(ends.leaves_at);
  const Port& sink = ports_.at(ends.enters_at);
  append(so_far, source.out);
  Route route = facts_.routing.kind == Routing::Kind::Ideal
                    ? all_paths(source, sink, std::move(so_far), detail)
                    : dealt_paths(ends, std::move(so_far));
  append(route, sink.in);
  return route;
}

// Of a NIC's cables those that start a shortest path.
std::vector<Cluster::Arc> Cluster::nearest_starts(const Port& source, const Hops& hops) const {
  std::uint16_t nearest = kUnreachable;
  for (const Arc& arc : source.up) nearest = std::min(nearest, hops[arc.place]);
  TY_CHECK(nearest != kUnreachable);
  std::vector<Arc> starts;
  for (const Arc& arc : source.up) {
    if (hops[arc.place] == nearest) starts.push_back(arc);
  }
  return starts;
}

Route Cluster::all_paths(const Port& source, const Port& sink, Route so_far,
                         RouteDetail detail) const {
  const auto arrive = [&](const Trunk& trunk) {
    append_trunk(so_far, trunk, detail);
    const std::vector<DeviceId>& switches = targets_[sink.target];
    for (const Arc& arc : sink.down) {
      const double share = trunk.arriving[static_cast<std::size_t>(
          std::ranges::lower_bound(switches, arc.device) - switches.begin())];
      if (arc.link == kNowhere || share == 0.0) continue;
      double cables = 0.0;
      for (const Arc& other : sink.down) cables += other.device == arc.device ? other.cables : 0.0;
      so_far.push_back({arc.link, share * (arc.cables / cables)});
    }
  };
  if (source.up.size() == 1) {
    const Arc& start = source.up.front();
    if (start.link != kNowhere) so_far.push_back({start.link, 1.0});
    arrive(trunk(start, sink.target));
  } else {
    const Hops here = searched(sink.target);
    const Hops& hops = distances(sink.target, here);
    arrive(trunk_to(nearest_starts(source, hops), hops, sink.target));
  }
  return so_far;
}

Route Cluster::dealt_paths(Crossing ends, Route so_far) const {
  const Port& source = ports_[ends.leaves_at];
  const Port& sink = ports_[ends.enters_at];
  const Hops here_searched = searched(sink.target);
  const Hops& hops = distances(sink.target, here_searched);
  const Routing& routing = facts_.routing;
  const std::uint64_t flows = routing.flows_per_connection;
  const std::vector<Arc> starts = nearest_starts(source, hops);
  Route crossed;
  for (std::uint64_t flow = 0; flow < flows; ++flow) {
    const std::uint64_t key =
        mixed(mixed(mixed(mixed(0, routing.seed), ends.leaves_at), ends.enters_at), flow);
    std::uint64_t turn = sink.number + flow;
    const auto pick = [&](const std::vector<Arc>& arcs, DeviceId at) {
      const std::uint64_t count = arcs.size();
      if (count == 1) return arcs.front();
      const std::uint64_t draw =
          routing.kind == Routing::Kind::Ecmp ? mixed(key, at) % count : turn % count;
      turn /= count;
      return arcs[draw];
    };
    const auto take = [&](const Arc& arc) {
      if (arc.link != kNowhere) crossed.push_back({arc.link, 1.0 / static_cast<double>(flows)});
    };
    Arc here = pick(starts, nic_of_gpu_[ends.leaves_at]);
    take(here);
    std::vector<Arc> onward;
    while (hops[here.place] > 0) {
      onward.clear();
      for (const Arc& arc : fabric_.out.of(here.device)) {
        if (hops[arc.place] + arc.length == hops[here.place]) onward.push_back(arc);
      }
      here = pick(onward, here.device);
      take(here);
    }
    onward.clear();
    for (const Arc& arc : sink.down) {
      if (arc.device == here.device) onward.push_back(arc);
    }
    take(pick(onward, here.device));
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
  const Hops hops = hops_to(nvlink_, gpus_.at(*relay));
  const bool has_nvlink = hops[nvlink_.place[gpus_.at(from_gpu)]] != kUnreachable;
  return has_nvlink ? fabric_latency(*relay, to_gpu) : extra_latency(from_gpu, to_gpu);
}

Seconds Cluster::fabric_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const Port& source = ports_.at(from_gpu);
  const Port& sink = ports_.at(to_gpu);
  const Hops here = searched(sink.target);
  const Hops& hops = distances(sink.target, here);
  double between = 0.0;
  for (const Arc& arc : nearest_starts(source, hops)) {
    double way = 0.0;
    if (hop_latency_s_) {
      way = *hop_latency_s_ * hops[arc.place];
    } else {
      way = !fabric_hops_.empty() ? fabric_latency_[sink.target][arc.place]
                                  : slowest_path(fabric_, hops, targets_[sink.target])[arc.place];
    }
    between = std::max(between, way);
  }
  const double whole = source.up_latency_s + between + sink.down_latency_s;
  return Seconds{std::max(0.0, whole - reference_latency_s_)};
}

// Only a node whose GPUs pass traffic on has farther and nearer GPUs.
Seconds Cluster::node_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (!gpus_relay_) return {};
  const Hops hops = hops_to(nvlink_, gpus_[to_gpu]);
  if (hops[nvlink_.place[gpus_[from_gpu]]] == kUnreachable) return {};
  const Latencies latencies = slowest_path(nvlink_, hops, std::span(&gpus_[to_gpu], 1));
  const std::uint32_t first = node_of(to_gpu) * facts_.gpus_per_node;
  double nearest = std::numeric_limits<double>::infinity();
  for (std::uint32_t gpu = first; gpu < first + facts_.gpus_per_node; ++gpu) {
    if (gpu != to_gpu && hops[nvlink_.place[gpus_[gpu]]] != kUnreachable) {
      nearest = std::min(nearest, latencies[nvlink_.place[gpus_[gpu]]]);
    }
  }
  return Seconds{latencies[nvlink_.place[gpus_[from_gpu]]] - nearest};
}

// ---- searches

std::size_t Cluster::Net::size_around(const Device& device) const {
  if (zone_size.size() == 1) return zone_size.front();
  return zone_size.at(static_cast<std::size_t>(device.node));
}

Cluster::Hops Cluster::hops_to(const Net& net, DeviceId target) const {
  return search(net, net.in, std::span(&target, 1));
}

// Breadth first, in rings of equal distance (an arc of length 3 waits two rings). A start may be a
// device that does not relay.
Cluster::Hops Cluster::search(const Net& net, const Adjacency& arcs,
                              std::span<const DeviceId> starts) const {
  Hops hops(net.size_around((*graph_)[starts.front()]), kUnreachable);
  std::vector<std::vector<Arc>> rings(1);
  for (const DeviceId start : starts) {
    hops[net.place[start]] = 0;
    rings.front().push_back({.device = start, .place = net.place[start]});
  }
  for (std::size_t distance = 0; distance < rings.size(); ++distance) {
    for (std::size_t next = 0; next < rings[distance].size(); ++next) {
      const Arc here = rings[distance][next];
      if (hops[here.place] != distance) continue;  // reached on a shorter way since
      if (distance > 0 && !net.relays[here.device]) continue;
      for (const Arc& arc : arcs.of(here.device)) {
        const std::size_t there = distance + arc.length;
        if (hops[arc.place] <= there) continue;
        hops[arc.place] = static_cast<std::uint16_t>(there);
        if (rings.size() <= there) rings.resize(there + 1);
        rings[there].push_back(arc);
      }
    }
  }
  return hops;
}

// From the targets outwards: each device hands on what lies behind it to those one step farther.
Cluster::Latencies Cluster::slowest_path(const Net& net, const Hops& hops,
                                         std::span<const DeviceId> targets) const {
  Latencies latencies(hops.size(), -1.0);
  std::vector<std::vector<Arc>> rings(1);
  for (const DeviceId target : targets) {
    latencies[net.place[target]] = 0.0;
    rings.front().push_back({.device = target, .place = net.place[target]});
  }
  for (std::size_t distance = 0; distance < rings.size(); ++distance) {
    for (std::size_t next = 0; next < rings[distance].size(); ++next) {
      const Arc here = rings[distance][next];
      if (distance > 0 && !net.relays[here.device]) continue;
      for (const Arc& arc : net.in.of(here.device)) {
        const std::size_t there = distance + arc.length;
        if (hops[arc.place] != there) continue;
        if (rings.size() <= there) rings.resize(there + 1);
        if (latencies[arc.place] < 0.0) rings[there].push_back(arc);
        latencies[arc.place] = std::max(latencies[arc.place],
                                        links_[arc.link].latency.value() + latencies[here.place]);
      }
    }
  }
  return latencies;
}

// Searched once for all nodes that are wired alike. REQUIRES: both are of one node.
Route Cluster::shortest_paths(const Net& net, DeviceId from, DeviceId to) const {
  const NodeLinks& here = nodes_[static_cast<std::size_t>(device(from).node)];
  const std::uint64_t places = net.size_around(device(from));
  const std::uint64_t which = (std::uint64_t{here.like} << 1U) | (&net == &host_ ? 1U : 0U);
  const auto [known, fresh] =
      node_routes_.try_emplace((which * places + net.place[from]) * places + net.place[to]);
  Route& route = known->second;
  if (fresh) {
    route = searched_paths(net, from, to);
    for (RouteHop& hop : route)
      hop.link =
          static_cast<LinkId>(std::ranges::lower_bound(here.links, hop.link) - here.links.begin());
  }
  Route result = route;
  for (RouteHop& hop : result) hop.link = here.links[hop.link];
  return result;
}

Route Cluster::searched_paths(const Net& net, DeviceId from, DeviceId to) const {
  const Hops hops = hops_to(net, to);
  if (hops[net.place[from]] == kUnreachable) return {};
  const Arc start{.device = from, .place = net.place[from]};
  return spread(net, std::span(&start, 1), hops, {}).route;
}

// Walks towards the target ring by ring; each device passes on what it got, in equal shares per
// cable, to the neighbours on its shortest paths.
Cluster::Spread Cluster::spread(const Net& net, std::span<const Arc> starts, const Hops& hops,
                                Route route) const {
  std::vector<double> share(hops.size(), 0.0);
  std::vector<std::vector<Arc>> rings(hops[starts.front().place] + std::size_t{1});
  const auto pass = [&](std::span<const Arc> arcs, double amount) {
    double cables = 0.0;
    for (const Arc& arc : arcs) cables += arc.cables;
    for (const Arc& arc : arcs) {
      const double fraction = amount * (arc.cables / cables);
      if (arc.link != kNowhere) route.push_back({arc.link, fraction});
      if (share[arc.place] == 0.0) rings[hops[arc.place]].push_back(arc);
      share[arc.place] += fraction;
    }
  };
  pass(starts, 1.0);
  std::vector<Arc> onward;
  for (std::size_t distance = rings.size() - 1; distance > 0; --distance) {
    for (const Arc& here : rings[distance]) {
      onward.clear();
      for (const Arc& arc : net.out.of(here.device)) {
        if (hops[arc.place] + arc.length != distance) continue;
        if (hops[arc.place] > 0 && !net.relays[arc.device]) continue;
        onward.push_back(arc);
      }
      pass(onward, share[here.place]);
    }
  }
  return {std::move(route), std::move(share)};
}

}  // namespace trainyard
