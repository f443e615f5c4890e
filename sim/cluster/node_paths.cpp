#include "sim/cluster/node_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
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

}  // namespace

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
  const std::uint64_t key = (which * kNodeDevicesMost + start.place) * kNodeDevicesMost + target;
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
  const std::uint32_t node = shapes_.node_around(from);
  const std::vector<NodeShapes::InnerLink>& links = shapes_.of(node).links;
  Route route = way(side, from, to);
  for (RouteHop& hop : route) hop.link = shapes_.link_of(node, links[hop.link]);
  return route;
}

bool NodePaths::has_route(Side side, DeviceId from, DeviceId to) const {
  return from == to || !way(side, from, to).empty();
}

Route NodePaths::between_gpus(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  const DeviceId from = topology_.gpus().at(from_gpu);
  const DeviceId to = topology_.gpus().at(to_gpu);
  Route over_nvlink = route(Side::NvLink, from, to);
  return over_nvlink.empty() ? route(Side::Host, from, to) : over_nvlink;
}

// Breadth first over PCIe and chip-to-chip links that lead through no GPU and no NIC; among CPUs
// equally near the one first wired.
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

// One of the two sides joins them all but in odd nodes, where each GPU is looked at by itself.
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

// Looked at once for nodes of one shape whose GPUs have the same NICs.
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

// Its GPUs and their NICs stand in the same places.
bool NodePaths::has_devices_like(std::uint32_t node, std::uint32_t other) const {
  const std::uint32_t gpus = topology_.facts().gpus_per_node;
  const std::size_t here = std::size_t{node} * gpus;
  const std::size_t there = std::size_t{other} * gpus;
  const bool in_a_row = shapes_.are_in_a_row();
  const DeviceId apart = in_a_row ? shapes_.device_at(node, 0) - shapes_.device_at(other, 0) : 0;
  const auto alike = [&](const std::vector<DeviceId>& devices) {
    for (std::uint32_t i = 0; i < gpus; ++i) {
      const DeviceId a = devices[here + i];
      const DeviceId b = devices[there + i];
      if (in_a_row ? a - b != apart : shapes_.place(a) != shapes_.place(b)) return false;
    }
    return true;
  };
  return alike(topology_.gpus()) && alike(topology_.nic_of_gpu());
}

}  // namespace trainyard
