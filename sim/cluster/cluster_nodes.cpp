// The inside of nodes: what nodes wired alike have in common, and the ways between two devices of
// one node.
#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>

#include "sim/base/check.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

constexpr std::uint64_t kNodeDevicesMost = std::uint64_t{1} << 19U;

// Distances to `target` as far as the way from `from` asks for them. In a mesh, where everything is
// a neighbour, a search for every pair would pass every link.
Hops hops_between(const Net& net, std::uint32_t from, std::uint32_t target) {
  const std::span<const Arc> arcs = net.out.of(from);
  const bool neighbours = net.plain && std::ranges::find(arcs, target, &Arc::place) != arcs.end();
  if (!neighbours) return search(net, net.in, std::span(&target, 1));
  Hops hops(net.relays.size(), kUnreachable);
  hops[target] = 0;
  hops[from] = 1;
  return hops;
}

// Whether paths join each of the places with all others, as far as two searches tell: where it
// says no there may still be such paths. Where all reach one place that relays and it reaches all,
// they reach each other through it. A switch or CPU beside the first is tried, or the first itself.
bool are_joined(const Net& net, std::span<const std::uint32_t> places) {
  if (places.empty()) return true;
  std::uint32_t middle = places.front();
  if (!net.relays[middle]) {
    const std::span<const Arc> beside = net.out.of(middle);
    const auto relay =
        std::ranges::find_if(beside, [&](const Arc& arc) { return net.relays[arc.place]; });
    if (relay == beside.end()) return false;
    middle = relay->place;
  }
  const auto reaches_all = [&](const Adjacency& arcs) {
    const Hops hops = search(net, arcs, std::span(&middle, 1));
    return std::ranges::all_of(places,
                               [&](std::uint32_t place) { return hops[place] != kUnreachable; });
  };
  return reaches_all(net.in) && reaches_all(net.out);
}

// Seconds to `target` from each of its neighbours, on the slowest link; -1 from all others.
Latencies neighbour_latencies(const Net& net, std::uint32_t target,
                              const std::function<double(LinkId)>& latency_of) {
  Latencies latencies(net.relays.size(), -1.0);
  latencies[target] = 0.0;
  for (const Arc& arc : net.in.of(target))
    latencies[arc.place] = std::max(latencies[arc.place], latency_of(arc.link));
  return latencies;
}

}  // namespace

void Cluster::place_devices() {
  bool others = false;  // devices of nodes behind the runs
  for (DeviceId id = wiring_.runs_end(); id < device_count(); ++id)
    others = others || device(id).node >= 0;
  if (!others && wiring_.runs().are_nodes(facts_.nodes)) return;
  first_device_.assign(facts_.nodes + std::size_t{1}, 0);
  for (DeviceId id = 0; id < device_count(); ++id)
    if (const std::int32_t node = device(id).node; node >= 0)
      ++first_device_.at(static_cast<std::size_t>(node) + 1);
  std::partial_sum(first_device_.begin(), first_device_.end(), first_device_.begin());
  place_.assign(device_count(), 0);
  node_devices_.resize(first_device_.back());
  std::vector<std::uint32_t> devices(facts_.nodes, 0);
  for (DeviceId id = 0; id < device_count(); ++id) {
    if (device(id).node < 0) continue;
    const std::uint32_t node = node_around(id);
    place_[id] = devices[node]++;
    node_devices_[first_device_[node] + place_[id]] = id;
  }
}

// Nodes of one pattern need no second look.
void Cluster::shape_nodes() {
  std::map<std::uint32_t, std::uint32_t> of_pattern;
  std::map<std::vector<std::uint64_t>, std::uint32_t> of_wiring;
  for (std::uint32_t node = 0; node < facts_.nodes; ++node) {
    const auto pattern = wiring_.pattern_of(node);
    const auto known = pattern ? of_pattern.find(*pattern) : of_pattern.end();
    if (known != of_pattern.end()) {
      shape_of_node_.push_back(known->second);
      continue;
    }
    const auto number = static_cast<std::uint32_t>(shapes_.size());
    const auto [shape, fresh] = of_wiring.try_emplace(node_wiring(node), number);
    if (fresh) shapes_.push_back(shape_of(node));
    if (pattern) of_pattern.emplace(*pattern, shape->second);
    shape_of_node_.push_back(shape->second);
  }
  gpus_relay_ = std::ranges::any_of(shapes_, [&](const NodeShape& shape) {
    return std::ranges::any_of(shape.links, [&](InnerLink inner) {
      const Link link = this->link(link_of(shape.first, inner));
      return link.kind == LinkKind::NvLink && device(link.from).kind == DeviceKind::Gpu &&
             device(link.to).kind == DeviceKind::Gpu;
    });
  });
}

std::vector<std::uint64_t> Cluster::node_wiring(std::uint32_t node) const {
  std::vector<std::uint64_t> wiring;
  for (const DeviceId id : devices_of(node)) {
    wiring.push_back(static_cast<std::uint64_t>(device(id).kind));
    const LinkId first = wiring_.first_link_from(id);
    for (const Link link : links_from(id)) {
      if (device(link.to).node != device(id).node) continue;
      wiring.push_back(std::uint64_t{link.id - first} << 32U | place(link.to));
      wiring.push_back(static_cast<std::uint64_t>(link.kind) << 32U | link.cables);
    }
    wiring.push_back(kNone);  // no device kind: the next follows
  }
  return wiring;
}

Cluster::NodeShape Cluster::shape_of(std::uint32_t node) const {
  NodeShape shape{.first = node};
  for (const DeviceId id : devices_of(node)) {
    const LinkId first = wiring_.first_link_from(id);
    for (const Link link : links_from(id))
      if (device(link.to).node == device(id).node)
        shape.links.push_back({place(id), link.id - first});
  }
  shape.nvlink = node_net(node, shape, Side::NvLink);
  shape.host = node_net(node, shape, Side::Host);
  return shape;
}

// Paths lead through no NIC, and through a GPU over NVLink alone.
Net Cluster::node_net(std::uint32_t node, const NodeShape& shape, Side side) const {
  std::vector<bool> relays;
  for (const DeviceId id : devices_of(node)) {
    const DeviceKind kind = device(id).kind;
    relays.push_back(kind != DeviceKind::Nic && (side == Side::NvLink || kind != DeviceKind::Gpu));
  }
  std::vector<NetLink> links;
  for (std::uint32_t i = 0; i < shape.links.size(); ++i) {
    const Link link = this->link(link_of(node, shape.links[i]));
    if (side == Side::NvLink ? link.kind != LinkKind::NvLink : !is_host_side(link.kind)) continue;
    links.push_back(
        {.from = place(link.from), .to = place(link.to), .link = i, .cables = link.cables});
  }
  return laid_out(
      std::move(relays), links,
      facts_.routing.kind == Routing::Kind::Ideal ? ArcOrder::OfLinks : ArcOrder::OfPlaces);
}

std::vector<DeviceId> Cluster::devices_of(std::uint32_t node) const {
  if (!place_.empty())
    return {node_devices_.begin() + first_device_[node],
            node_devices_.begin() + first_device_[node + 1]};
  std::vector<DeviceId> devices(wiring_.runs().devices_of(node));
  std::iota(devices.begin(), devices.end(), device_at(node, 0));
  return devices;
}

LinkId Cluster::link_of(std::uint32_t node, InnerLink link) const {
  return wiring_.first_link_from(device_at(node, link.place)) + link.position;
}

std::uint32_t Cluster::node_around(DeviceId id) const {
  return static_cast<std::uint32_t>(device(id).node);
}

const Cluster::NodeShape& Cluster::shape_around(DeviceId id) const {
  return shapes_[shape_of_node_[node_around(id)]];
}

// Searched once for all nodes of a shape. REQUIRES: both are of one node.
const Route& Cluster::way(Side side, DeviceId from, DeviceId to) const {
  const NodeShape& shape = shape_around(from);
  const Net& net = side == Side::Host ? shape.host : shape.nvlink;
  const std::uint64_t which =
      std::uint64_t{shape.first} << 1U | static_cast<std::uint64_t>(side == Side::Host);
  TY_CHECK(net.relays.size() <= kNodeDevicesMost, net.relays.size());
  const std::uint32_t target = place(to);
  const std::uint64_t key = (which * kNodeDevicesMost + place(from)) * kNodeDevicesMost + target;
  return routes_->way(key, [&]() -> Route {
    const Hops hops = hops_between(net, place(from), target);
    if (hops[place(from)] == kUnreachable) return {};
    const Arc start{.place = place(from)};
    return spread(net, std::span(&start, 1), hops).route;
  });
}

Route Cluster::node_route(Side side, DeviceId from, DeviceId to) const {
  const NodeShape& shape = shape_around(from);
  Route route = way(side, from, to);
  for (RouteHop& hop : route) hop.link = link_of(node_around(from), shape.links[hop.link]);
  return route;
}

bool Cluster::reaches(Side side, DeviceId from, DeviceId to) const {
  return from == to || !way(side, from, to).empty();
}

Route Cluster::in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  Route route = node_route(Side::NvLink, gpus_.at(from_gpu), gpus_.at(to_gpu));
  return route.empty() ? node_route(Side::Host, gpus_[from_gpu], gpus_[to_gpu]) : route;
}

// Breadth first over PCIe and chip-to-chip links that lead through no GPU and no NIC; among CPUs
// equally near the one first wired.
std::optional<DeviceId> Cluster::host_of(std::uint32_t gpu) const {
  std::vector<DeviceId> seen{gpus_.at(gpu)};
  for (std::size_t next = 0; next < seen.size(); ++next) {
    if (device(seen[next]).kind == DeviceKind::Cpu) return seen[next];
    for (const Link link : links_from(seen[next])) {
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
  return host ? node_route(Side::Host, gpus_[gpu], *host) : Route{};
}

Route Cluster::route_from_host(std::uint32_t gpu) const {
  const std::optional<DeviceId> host = host_of(gpu);
  return host ? node_route(Side::Host, *host, gpus_[gpu]) : Route{};
}

// Only a node whose GPUs pass traffic on has farther and nearer GPUs.
Seconds Cluster::node_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (!gpus_relay_) return {};
  const NodeShape& shape = shape_around(gpus_[to_gpu]);
  const std::uint32_t node = node_of(to_gpu);
  const auto place = [&](std::uint32_t gpu) { return this->place(gpus_[gpu]); };
  const std::uint32_t to = place(to_gpu);
  const auto latency_of = [&](LinkId inner) {
    return wiring_.wire(link_of(node, shape.links[inner])).latency.value();
  };
  const std::uint32_t first = node * facts_.gpus_per_node;
  const auto gpus = std::views::iota(first, first + facts_.gpus_per_node);
  Latencies latencies = neighbour_latencies(shape.nvlink, to, latency_of);
  const auto known = [&](std::uint32_t gpu) { return latencies[place(gpu)] >= 0.0; };
  if (!shape.nvlink.plain || !std::ranges::all_of(gpus, known)) {
    const std::span target(&to, 1);
    const Hops hops = search(shape.nvlink, shape.nvlink.in, target);
    latencies = slowest_path(shape.nvlink, hops, target, latency_of);
  }
  if (!known(from_gpu)) return {};
  double nearest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t gpu : gpus)
    if (gpu != to_gpu && known(gpu)) nearest = std::min(nearest, latencies[place(gpu)]);
  return Seconds{latencies[place(from_gpu)] - nearest};
}

// Every GPU of the node is reached by all others, over NVLink or over the host side. One of them
// joins them all but in odd nodes, where each GPU is looked at by itself.
bool Cluster::is_joined(std::uint32_t node) const {
  const auto gpus =
      std::span(gpus_).subspan(std::size_t{node} * facts_.gpus_per_node, facts_.gpus_per_node);
  const NodeShape& shape = shapes_[shape_of_node_[node]];
  std::vector<std::uint32_t> places;
  for (const DeviceId gpu : gpus) places.push_back(place(gpu));
  if (are_joined(shape.nvlink, places) || are_joined(shape.host, places)) return true;
  return std::ranges::all_of(places, [&](std::uint32_t target) {
    const auto reached = [&](const Net& net) {
      const Hops hops = search(net, net.in, std::span(&target, 1));
      return std::ranges::all_of(places,
                                 [&](std::uint32_t from) { return hops[from] != kUnreachable; });
    };
    return reached(shape.nvlink) || reached(shape.host);
  });
}

}  // namespace trainyard
