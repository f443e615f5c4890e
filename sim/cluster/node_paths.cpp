#include "sim/cluster/node_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/workload.hpp"  // IWYU pragma: keep (kNone)

namespace trainyard {

namespace {

constexpr std::uint64_t kNodeDevicesMost = std::uint64_t{1} << 19U;

// Returns distances to `target`, as far as spread() from `from` reads them. A direct link needs no
// search: in a full mesh a search for every pair of devices would visit every link each time.
Hops hops_between(const Net& net, std::uint32_t from, std::uint32_t target) {
  const std::span<const Arc> arcs = net.out.of(from);
  const bool neighbours = net.plain && std::ranges::find(arcs, target, &Arc::place) != arcs.end();
  if (!neighbours) return search(net, net.in, std::span(&target, 1));
  Hops hops(net.relays.size(), kUnreachable);
  hops[target] = 0;
  hops[from] = 1;
  return hops;
}

// Returns true if paths join each of the devices with all others. False may also mean that the test
// did not find such paths. It takes two searches: if all devices reach one relaying device and it
// reaches all of them, they reach each other through it. That device is the first one, or, if that
// does not relay, a switch or CPU next to it.
bool are_joined(const Net& net, std::span<const std::uint32_t> places) {
  if (places.empty()) return true;
  std::uint32_t middle = places.front();
  if (!net.relays[middle]) {
    const std::span<const Arc> arcs = net.out.of(middle);
    const auto relay =
        std::ranges::find_if(arcs, [&](const Arc& arc) { return net.relays[arc.place]; });
    if (relay == arcs.end()) return false;
    middle = relay->place;
  }
  const auto reaches_all = [&](const Adjacency& arcs) {
    const Hops hops = search(net, arcs, std::span(&middle, 1));
    return std::ranges::all_of(places,
                               [&](std::uint32_t place) { return hops[place] != kUnreachable; });
  };
  return reaches_all(net.in) && reaches_all(net.out);
}

}  // namespace

// Nodes of one pattern have the same shape, so each pattern is compared only once.
NodeShapes::NodeShapes(Topology topology)
    : topology_(std::move(topology)), places_(places_in(topology_)) {
  std::map<std::uint32_t, std::uint32_t> of_pattern;
  std::map<std::vector<std::uint64_t>, std::uint32_t> of_wiring;
  for (std::uint32_t node = 0; node < topology_.facts().nodes; ++node) {
    const auto pattern = topology_.wiring().pattern_of(node);
    const auto known = pattern ? of_pattern.find(*pattern) : of_pattern.end();
    if (known != of_pattern.end()) {
      of_node_.push_back(known->second);
      continue;
    }
    const auto number = static_cast<std::uint32_t>(shapes_.size());
    const auto [shape, fresh] = of_wiring.try_emplace(wiring_of(node), number);
    if (fresh) shapes_.push_back(shape_of(node));
    if (pattern) of_pattern.emplace(*pattern, shape->second);
    of_node_.push_back(shape->second);
  }
}

NodeShapes::Places NodeShapes::places_in(const Topology& topology) {
  bool others = false;  // devices of nodes after the runs
  for (DeviceId id = topology.wiring().runs_end(); id < topology.device_count(); ++id)
    others = others || topology.device(id).node >= 0;
  const std::uint32_t nodes = topology.facts().nodes;
  if (!others && topology.wiring().runs().are_nodes(nodes)) return {};
  Places places;
  // Counting sort of the devices by node. The index of a device in its node follows device numbers.
  places.first.assign(nodes + std::size_t{1}, 0);
  for (DeviceId id = 0; id < topology.device_count(); ++id)
    if (const std::int32_t node = topology.device(id).node; node >= 0)
      ++places.first.at(static_cast<std::size_t>(node) + 1);
  std::partial_sum(places.first.begin(), places.first.end(), places.first.begin());
  places.of_device.assign(topology.device_count(), 0);
  places.devices.resize(places.first.back());
  std::vector<std::uint32_t> devices(nodes, 0);
  for (DeviceId id = 0; id < topology.device_count(); ++id) {
    if (topology.device(id).node < 0) continue;
    const auto node = static_cast<std::uint32_t>(topology.device(id).node);
    places.of_device[id] = devices[node]++;
    places.devices[places.first[node] + places.of_device[id]] = id;
  }
  return places;
}

std::vector<DeviceId> NodeShapes::devices_of(std::uint32_t node) const {
  if (!has_consecutive_devices())
    return {places_.devices.begin() + places_.first[node],
            places_.devices.begin() + places_.first[node + 1]};
  std::vector<DeviceId> devices(topology_.wiring().runs().devices_of(node));
  std::iota(devices.begin(), devices.end(), device_at(node, 0));
  return devices;
}

// Returns a key that is equal for nodes of one shape: for each device its kind, and for each link
// to a device of the node its position, its target, its kind and its cables. Rates are not part of
// it, because routes do not depend on them.
std::vector<std::uint64_t> NodeShapes::wiring_of(std::uint32_t node) const {
  std::vector<std::uint64_t> wiring;
  for (const DeviceId id : devices_of(node)) {
    wiring.push_back(static_cast<std::uint64_t>(topology_.device(id).kind));
    const LinkId first = topology_.wiring().first_link_from(id);
    for (const Link link : topology_.links_from(id)) {
      if (topology_.device(link.to).node != topology_.device(id).node) continue;
      wiring.push_back(std::uint64_t{link.id - first} << 32U | place(link.to));
      wiring.push_back(static_cast<std::uint64_t>(link.kind) << 32U | link.cables);
    }
    wiring.push_back(kNone);  // separates devices: no kind has this value
  }
  return wiring;
}

// No path passes through a NIC. Only NVLink paths may pass through a GPU.
NodeShapes::Shape NodeShapes::shape_of(std::uint32_t node) const {
  Shape shape{.first = node};
  for (const DeviceId id : devices_of(node)) {
    const LinkId first = topology_.wiring().first_link_from(id);
    for (const Link link : topology_.links_from(id))
      if (topology_.device(link.to).node == topology_.device(id).node)
        shape.links.push_back({place(id), link.id - first});
  }
  shape.nvlink = net_of(
      shape, [](LinkKind kind) { return kind == LinkKind::NvLink; },
      [](DeviceKind kind) { return kind != DeviceKind::Nic; });
  shape.host = net_of(shape, is_host_side, [](DeviceKind kind) {
    return kind != DeviceKind::Nic && kind != DeviceKind::Gpu;
  });
  return shape;
}

template <class Takes, class Relays>
Net NodeShapes::net_of(const Shape& shape, Takes takes, Relays relays) const {
  std::vector<bool> passing;
  for (const DeviceId id : devices_of(shape.first))
    passing.push_back(relays(topology_.device(id).kind));
  std::vector<NetLink> links;
  for (std::uint32_t i = 0; i < shape.links.size(); ++i) {
    const Link link = topology_.link(link_of(shape.first, shape.links[i]));
    if (!takes(link.kind)) continue;
    links.push_back(
        {.from = place(link.from), .to = place(link.to), .link = LinkId{i}, .cables = link.cables});
  }
  const bool ideal = topology_.facts().routing.kind == Routing::Kind::Ideal;
  return laid_out(std::move(passing), links, ideal ? ArcOrder::OfLinks : ArcOrder::OfPlaces);
}

NodePaths::NodePaths(const Topology& topology) : topology_(topology), shapes_(topology) {
  if (!topology_.nic_of_gpu().empty()) check_ways_to_nics();
}

const Route& NodePaths::way(Side side, DeviceId from, DeviceId to) const {
  const NodeShapes::Shape& shape = shapes_.of(shapes_.node_around(from));
  const Net& net = side == Side::Host ? shape.host : shape.nvlink;
  TY_CHECK(net.relays.size() <= kNodeDevicesMost, net.relays.size());
  const std::uint64_t which =
      std::uint64_t{shape.first} << 1U | static_cast<std::uint64_t>(side == Side::Host);
  const Arc start{.place = shapes_.place(from)};
  const std::uint32_t target = shapes_.place(to);
  // The key packs shape and side with two indices of 19 bits each (kNodeDevicesMost).
  const std::uint64_t key = (which * kNodeDevicesMost + start.place) * kNodeDevicesMost + target;
  // The lock also covers the search, so that each route is searched once. References into the map
  // stay valid.
  const std::scoped_lock lock(mutex_);
  const auto [known, fresh] = ways_.try_emplace(key);
  if (fresh) {
    const Hops hops = hops_between(net, start.place, target);
    if (hops[start.place] != kUnreachable)
      known->second = spread(net, std::span(&start, 1), hops).route;
  }
  return known->second;
}

Route NodePaths::route(Side side, DeviceId from, DeviceId to) const {
  Route route;
  append(route, side, from, to);
  return route;
}

void NodePaths::append(Route& route, Side side, DeviceId from, DeviceId to) const {
  const std::uint32_t node = shapes_.node_around(from);
  const std::vector<NodeShapes::InnerLink>& links = shapes_.of(node).links;
  for (RouteHop hop : way(side, from, to)) {
    hop.link = shapes_.link_of(node, links[hop.link]);
    route.push_back(hop);
  }
}

bool NodePaths::has_route(Side side, DeviceId from, DeviceId to) const {
  return from == to || !way(side, from, to).empty();
}

Route NodePaths::between_gpus(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  const DeviceId from = topology_.gpus().at(from_gpu);
  const DeviceId to = topology_.gpus().at(to_gpu);
  // NVLink takes precedence over the host side, even if the path over the host side has fewer
  // links.
  const Route over_nvlink = route(Side::NvLink, from, to);
  return over_nvlink.empty() ? route(Side::Host, from, to) : over_nvlink;
}

// Breadth-first search over PCIe and chip-to-chip links, not through GPUs or NICs. Among equally
// near CPUs it returns the one that was wired first.
std::optional<DeviceId> NodePaths::host_of(std::uint32_t gpu) const {
  std::vector<DeviceId> seen{topology_.gpus().at(gpu)};
  for (std::size_t next = 0; next < seen.size(); ++next) {
    if (topology_.device(seen[next]).kind == DeviceKind::Cpu) return seen[next];
    for (const Link link : topology_.links_from(seen[next])) {
      const DeviceKind kind = topology_.device(link.to).kind;
      const bool wired = link.kind == LinkKind::Pcie || link.kind == LinkKind::ChipToChip;
      const bool passes = kind == DeviceKind::PcieSwitch || kind == DeviceKind::Cpu;
      if (wired && passes && std::ranges::find(seen, link.to) == seen.end())
        seen.push_back(link.to);
    }
  }
  return std::nullopt;
}

Route NodePaths::to_host(std::uint32_t gpu) const {
  const std::optional<DeviceId> host = host_of(gpu);
  return host ? route(Side::Host, topology_.gpus()[gpu], *host) : Route{};
}

Route NodePaths::from_host(std::uint32_t gpu) const {
  const std::optional<DeviceId> host = host_of(gpu);
  return host ? route(Side::Host, *host, topology_.gpus()[gpu]) : Route{};
}

// In ordinary nodes one of the two sides joins all GPUs. Only other nodes need a search per GPU.
bool NodePaths::joins_gpus(std::uint32_t node) const {
  const std::uint32_t per_node = topology_.facts().gpus_per_node;
  const NodeShapes::Shape& shape = shapes_.of(node);
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < per_node; ++i)
    places.push_back(shapes_.place(topology_.gpus()[node * per_node + i]));
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

// Nodes of one shape whose GPUs have NICs at the same indices are checked once.
void NodePaths::check_ways_to_nics() const {
  const std::uint32_t per_node = topology_.facts().gpus_per_node;
  std::vector<std::uint32_t> checked(shapes_.all().size(), kNone);
  for (std::uint32_t node = 0; node < topology_.facts().nodes; ++node) {
    std::uint32_t& last = checked[shapes_.number(node)];
    if (last != kNone && has_devices_like(node, last)) continue;
    last = node;
    for (std::uint32_t i = 0; i < per_node; ++i) {
      const DeviceId gpu = topology_.gpus()[node * per_node + i];
      const DeviceId nic = topology_.nic_of_gpu()[node * per_node + i];
      if (!way(Side::Host, gpu, nic).empty() && !way(Side::Host, nic, gpu).empty()) continue;
      throw InputError(Problem{"", "",
                               fmt::format("{} has no way to its NIC {} and back",
                                           topology_.name(gpu), topology_.name(nic)),
                               "join them by pcie or chip_to_chip links in both directions"});
    }
  }
}

// True if the GPUs and their NICs have the same indices in both nodes.
bool NodePaths::has_devices_like(std::uint32_t node, std::uint32_t other) const {
  const std::uint32_t gpus = topology_.facts().gpus_per_node;
  const std::size_t here = std::size_t{node} * gpus;
  const std::size_t there = std::size_t{other} * gpus;
  const bool in_a_row = shapes_.has_consecutive_devices();
  const std::uint32_t apart =
      in_a_row ? shapes_.device_at(node, 0) - shapes_.device_at(other, 0) : 0;
  const auto consecutive = [&](const std::vector<DeviceId>& devices) {
    for (std::uint32_t i = 0; i < gpus; ++i) {
      const DeviceId a = devices[here + i];
      const DeviceId b = devices[there + i];
      if (in_a_row ? a - b != apart : shapes_.place(a) != shapes_.place(b)) return false;
    }
    return true;
  };
  return consecutive(topology_.gpus()) && consecutive(topology_.nic_of_gpu());
}

}  // namespace trainyard
