#include "sim/cluster/node_shapes.hpp"

#include <map>
#include <numeric>
#include <utility>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Nodes of one pattern need no second look.
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
  bool others = false;  // devices of nodes behind the runs
  for (DeviceId id = topology.wiring().runs_end(); id < topology.device_count(); ++id)
    others = others || topology.device(id).node >= 0;
  const std::uint32_t nodes = topology.facts().nodes;
  if (!others && topology.wiring().runs().are_nodes(nodes)) return {};
  Places places;
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
  if (!are_in_a_row())
    return {places_.devices.begin() + places_.first[node],
            places_.devices.begin() + places_.first[node + 1]};
  std::vector<DeviceId> devices(topology_.wiring().runs().devices_of(node));
  std::iota(devices.begin(), devices.end(), device_at(node, 0));
  return devices;
}

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
    wiring.push_back(kNone);  // no device kind: the next follows
  }
  return wiring;
}

// Paths lead through no NIC, and through a GPU over NVLink alone.
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
        {.from = place(link.from), .to = place(link.to), .link = i, .cables = link.cables});
  }
  const bool ideal = topology_.facts().routing.kind == Routing::Kind::Ideal;
  return laid_out(std::move(passing), links, ideal ? ArcOrder::OfLinks : ArcOrder::OfPlaces);
}

}  // namespace trainyard
