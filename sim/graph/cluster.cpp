#include "sim/graph/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint16_t kUnreachable = std::numeric_limits<std::uint16_t>::max();
// Entries of the distance table of the fabric: 64 Mi of two bytes. 65 536 endpoints of a
// three-level fat-tree need 10 Mi.
constexpr std::size_t kTableMost = std::size_t{1} << 26U;

constexpr std::uint32_t bit(LinkKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr std::uint32_t kNvLinkSide = bit(LinkKind::NvLink);
constexpr std::uint32_t kHostSide =
    bit(LinkKind::Pcie) | bit(LinkKind::ChipToChip) | bit(LinkKind::Socket);
constexpr std::uint32_t kFabricSide =
    bit(LinkKind::NicPort) | bit(LinkKind::LeafSpine) | bit(LinkKind::SpineCore);

constexpr std::array<std::string_view, kDeviceKinds> kDeviceNames = {
    "gpu", "nvswitch", "pcie_switch", "nic", "leaf", "spine", "core", "cpu"};
constexpr std::array<std::string_view, kLinkKinds> kLinkNames = {
    "nvlink", "pcie", "nic", "leaf_spine", "spine_core", "chip_to_chip", "socket"};

bool is_network_switch(DeviceKind kind) {
  return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
         kind == DeviceKind::CoreSwitch;
}

void append(Route& route, const Route& more) {
  route.insert(route.end(), more.begin(), more.end());
}

[[noreturn]] void refuse(std::string problem, std::string remedy) {
  throw InputError(Problem{"", "", std::move(problem), std::move(remedy)});
}

}  // namespace

std::string_view to_string(DeviceKind kind) {
  return kDeviceNames.at(static_cast<std::size_t>(kind));
}
std::string_view to_string(LinkKind kind) { return kLinkNames.at(static_cast<std::size_t>(kind)); }

Cluster::Cluster(ClusterFacts facts, const ClusterGraph& graph, std::vector<DeviceId> gpus,
                 std::vector<DeviceId> nic_of_gpu)
    : facts_(std::move(facts)),
      graph_(std::make_unique<ClusterGraph>(boost::num_vertices(graph))),
      gpus_(std::move(gpus)),
      nic_of_gpu_(std::move(nic_of_gpu)) {
  TY_CHECK(!gpus_.empty());
  TY_CHECK(gpus_.size() == std::size_t{facts_.nodes} * facts_.gpus_per_node, gpus_.size());
  TY_CHECK(nic_of_gpu_.empty() || nic_of_gpu_.size() == gpus_.size(), nic_of_gpu_.size());
  TY_CHECK(!nic_of_gpu_.empty() || facts_.nodes == 1, facts_.nodes);
  copy_numbered(graph);
  check_links();
  nvlink_ = node_net(kNvLinkSide, true);
  host_ = node_net(kHostSide, false);
  fabric_ = fabric_net();
  if (!nic_of_gpu_.empty()) make_ports();
  check_reachable();
}

std::uint32_t Cluster::node_of(std::uint32_t gpu) const { return gpu / facts_.gpus_per_node; }
std::uint32_t Cluster::local_index(std::uint32_t gpu) const { return gpu % facts_.gpus_per_node; }

Route Cluster::route(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const DeviceId from = gpus_.at(from_gpu);
  const DeviceId to = gpus_.at(to_gpu);
  if (from == to) return {};
  if (node_of(from_gpu) != node_of(to_gpu)) return across_fabric(from_gpu, to_gpu);
  Route route = shortest_paths(nvlink_, from, to);
  if (route.empty()) route = shortest_paths(host_, from, to);
  return route.empty() ? across_fabric(from_gpu, to_gpu) : route;
}

Route Cluster::route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const std::uint32_t node = node_of(from_gpu);
  const std::uint32_t relay = node * facts_.gpus_per_node + local_index(to_gpu);
  if (node == node_of(to_gpu) || relay == from_gpu) return route(from_gpu, to_gpu);
  Route path = shortest_paths(nvlink_, gpus_.at(from_gpu), gpus_.at(relay));
  if (path.empty()) return route(from_gpu, to_gpu);
  append(path, across_fabric(relay, to_gpu));
  return path;
}

Route Cluster::across_fabric(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const Port& source = ports_.at(from_gpu);
  const Port& sink = ports_.at(to_gpu);
  Route route = source.out;
  if (source.entry != sink.entry) {
    route = fabric_hops_.empty() ? spread(fabric_, source.entry, sink.entry,
                                          hops_to(fabric_, sink.entry), std::move(route))
                                 : spread(fabric_, source.entry, sink.entry,
                                          fabric_hops_[sink.target], std::move(route));
  }
  append(route, sink.in);
  return route;
}

// ---- construction

// Boost's own copy of a graph does not give links their numbers.
void Cluster::copy_numbered(const ClusterGraph& graph) {
  links_.reserve(boost::num_edges(graph));
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    (*graph_)[vertex] = graph[vertex];
    for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, graph))) {
      Link link = graph[edge];
      link.id = static_cast<LinkId>(links_.size());
      link.from = static_cast<DeviceId>(vertex);
      link.to = static_cast<DeviceId>(boost::target(edge, graph));
      boost::add_edge(link.from, link.to, link, *graph_);
      links_.push_back(link);
    }
  }
}

void Cluster::check_links() const {
  for (const Link& link : links_) {
    if (link.capacity.value() > 0.0 && std::isfinite(link.capacity.value())) continue;
    refuse(fmt::format("the {} link from {} to {} has a capacity of {} B/s", to_string(link.kind),
                       device(link.from).name, device(link.to).name, link.capacity.value()),
           "give it a positive capacity or leave the link out");
  }
}

Cluster::Net Cluster::node_net(std::uint32_t kinds, bool through_gpus) const {
  Net net;
  const std::size_t devices = boost::num_vertices(*graph_);
  net.place.assign(devices, kNowhere);
  net.relays.assign(devices, false);
  net.zone_size.assign(facts_.nodes, 0);
  for (DeviceId id = 0; id < devices; ++id) {
    const Device& device = (*graph_)[id];
    if (device.node < 0) continue;
    net.place[id] = net.zone_size.at(static_cast<std::size_t>(device.node))++;
    net.relays[id] =
        device.kind != DeviceKind::Nic && (through_gpus || device.kind != DeviceKind::Gpu);
  }
  fill_adjacency(net, kinds);
  return net;
}

// A NIC forwards the traffic of others only where NICs are cabled to each other (a torus of nodes):
// a NIC with ports on two leaves is no bridge between them.
Cluster::Net Cluster::fabric_net() const {
  Net net;
  const std::size_t devices = boost::num_vertices(*graph_);
  net.place.assign(devices, kNowhere);
  net.relays.assign(devices, false);
  for (const Link& link : links_) {
    const bool both_nics =
        device(link.from).kind == DeviceKind::Nic && device(link.to).kind == DeviceKind::Nic;
    if (both_nics) net.relays[link.from] = net.relays[link.to] = true;
  }
  // A NIC is stripped when all it has is one link to a switch and one back.
  std::vector<std::vector<DeviceId>> above(devices);
  std::vector<std::vector<DeviceId>> below(devices);
  for (const Link& link : links_) {
    if (link.kind != LinkKind::NicPort) continue;
    above[link.from].push_back(link.to);
    below[link.to].push_back(link.from);
  }
  std::uint32_t size = 0;
  for (DeviceId id = 0; id < devices; ++id) {
    const DeviceKind kind = device(id).kind;
    if (is_network_switch(kind)) net.relays[id] = true;
    const bool stripped = above[id].size() == 1 && above[id] == below[id] && !net.relays[id];
    if (net.relays[id] || (kind == DeviceKind::Nic && !stripped)) net.place[id] = size++;
  }
  net.zone_size = {size};
  fill_adjacency(net, kFabricSide);
  return net;
}

void Cluster::fill_adjacency(Net& net, std::uint32_t kinds) const {
  const auto belongs = [&](const Link& link) {
    return (bit(link.kind) & kinds) != 0 && net.place[link.from] != kNowhere &&
           net.place[link.to] != kNowhere;
  };
  const auto fill = [&](Adjacency& adjacency, DeviceId Link::*near, DeviceId Link::*far) {
    adjacency.begin.assign(boost::num_vertices(*graph_) + 1, 0);
    for (const Link& link : links_) {
      if (belongs(link)) ++adjacency.begin[link.*near + 1];
    }
    for (std::size_t i = 1; i < adjacency.begin.size(); ++i) {
      adjacency.begin[i] += adjacency.begin[i - 1];
    }
    adjacency.arcs.resize(adjacency.begin.back());
    std::vector<std::uint32_t> next(adjacency.begin.begin(), adjacency.begin.end() - 1);
    for (const Link& link : links_) {
      if (!belongs(link)) continue;
      adjacency.arcs[next[link.*near]++] = {link.*far, net.place[link.*far], link.id, link.cables};
    }
  };
  fill(net.out, &Link::from, &Link::to);
  fill(net.in, &Link::to, &Link::from);
}

void Cluster::make_ports() {
  // The only cable of a stripped NIC, outward and inward.
  std::map<DeviceId, std::pair<LinkId, LinkId>> cable;
  for (const Link& link : links_) {
    if (link.kind != LinkKind::NicPort) continue;
    if (fabric_.place[link.from] == kNowhere) cable[link.from].first = link.id;
    if (fabric_.place[link.to] == kNowhere) cable[link.to].second = link.id;
  }
  std::vector<DeviceId> targets;
  std::map<DeviceId, std::uint32_t> target_of;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const DeviceId nic = nic_of_gpu_[gpu];
    Port port{.out = shortest_paths(host_, gpus_[gpu], nic),
              .in = shortest_paths(host_, nic, gpus_[gpu]),
              .entry = nic};
    if (port.out.empty() || port.in.empty()) {
      refuse(fmt::format("{} has no way to its NIC {} and back", device(gpus_[gpu]).name,
                         device(nic).name),
             "join them by pcie or chip_to_chip links in both directions");
    }
    if (const auto found = cable.find(nic); found != cable.end()) {
      port.entry = link(found->second.first).to;
      port.out.push_back({found->second.first});
      port.in.insert(port.in.begin(), RouteHop{found->second.second});
    }
    const auto [known, added] =
        target_of.try_emplace(port.entry, static_cast<std::uint32_t>(targets.size()));
    if (added) targets.push_back(port.entry);
    port.target = known->second;
    ports_.push_back(std::move(port));
  }
  tabulate_fabric(targets);
}

void Cluster::tabulate_fabric(const std::vector<DeviceId>& targets) {
  if (targets.size() * fabric_.zone_size.front() > kTableMost) return;
  fabric_hops_.reserve(targets.size());
  for (const DeviceId target : targets) fabric_hops_.push_back(hops_to(fabric_, target));
}

void Cluster::check_reachable() const {
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); gpu += facts_.gpus_per_node) check_node(gpu);
  if (ports_.empty()) return;
  // What reaches the first entry and is reached from it reaches everything else.
  const DeviceId first = ports_.front().entry;
  const Hops there = search(fabric_, fabric_.in, first);
  const Hops back = search(fabric_, fabric_.out, first);
  for (std::size_t gpu = 0; gpu < ports_.size(); ++gpu) {
    const std::uint32_t place = fabric_.place[ports_[gpu].entry];
    if (there[place] != kUnreachable && back[place] != kUnreachable) continue;
    refuse(fmt::format("{} and {} cannot reach each other over the fabric",
                       device(gpus_.front()).name, device(gpus_[gpu]).name),
           "add the links that join them, in both directions");
  }
}

void Cluster::check_node(std::uint32_t first_gpu) const {
  const auto reaches_all = [&](const Net& net, DeviceId target) {
    const Hops hops = hops_to(net, target);
    return std::all_of(gpus_.begin() + first_gpu, gpus_.begin() + first_gpu + facts_.gpus_per_node,
                       [&](DeviceId gpu) { return hops[net.place[gpu]] != kUnreachable; });
  };
  for (std::uint32_t i = first_gpu; i < first_gpu + facts_.gpus_per_node; ++i) {
    const DeviceId gpu = gpus_[i];
    if (reaches_all(nvlink_, gpu) || reaches_all(host_, gpu) || !ports_.empty()) continue;
    refuse(fmt::format("not every GPU of its node can reach {}", device(gpu).name),
           "join the GPUs of a node by nvlink or pcie links in both directions");
  }
}

// ---- paths

std::size_t Cluster::Net::size_around(const Device& device) const {
  if (zone_size.size() == 1) return zone_size.front();
  return zone_size.at(static_cast<std::size_t>(device.node));
}

Cluster::Hops Cluster::hops_to(const Net& net, DeviceId target) const {
  return search(net, net.in, target);
}

// Breadth first. The start may be a device that does not relay.
Cluster::Hops Cluster::search(const Net& net, const Adjacency& arcs, DeviceId start) const {
  Hops hops(net.size_around((*graph_)[start]), kUnreachable);
  hops[net.place[start]] = 0;
  std::vector<Arc> queue = {{start, net.place[start], 0, 1}};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const Arc here = queue[next];
    if (here.device != start && !net.relays[here.device]) continue;
    const auto farther = static_cast<std::uint16_t>(hops[here.place] + 1);
    for (const Arc& arc : arcs.of(here.device)) {
      if (hops[arc.place] != kUnreachable) continue;
      hops[arc.place] = farther;
      queue.push_back(arc);
    }
  }
  return hops;
}

Route Cluster::shortest_paths(const Net& net, DeviceId from, DeviceId to) const {
  return spread(net, from, to, hops_to(net, to), {});
}

// Walks towards the target layer by layer; each device passes on what it got, in equal shares per
// cable, to the neighbours one hop nearer.
Route Cluster::spread(const Net& net, DeviceId from, DeviceId to, const Hops& hops,
                      Route route) const {
  std::uint16_t distance = hops[net.place[from]];
  if (distance == kUnreachable) return route;
  std::vector<double> share(hops.size(), 0.0);
  std::vector<Arc> layer = {{from, net.place[from], 0, 1}};
  std::vector<Arc> onward;
  share[net.place[from]] = 1.0;
  for (; distance > 0; --distance) {
    std::vector<Arc> next;
    for (const Arc& here : layer) {
      onward.clear();
      double cables = 0.0;
      for (const Arc& arc : net.out.of(here.device)) {
        if (hops[arc.place] + 1 != distance) continue;
        if (arc.device != to && !net.relays[arc.device]) continue;
        onward.push_back(arc);
        cables += arc.cables;
      }
      for (const Arc& arc : onward) {
        const double fraction = share[here.place] * (arc.cables / cables);
        route.push_back({arc.link, fraction});
        if (share[arc.place] == 0.0) next.push_back(arc);
        share[arc.place] += fraction;
      }
    }
    layer = std::move(next);
  }
  return route;
}

}  // namespace trainyard
