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
#include "sim/graph/link_bundles.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t bit(LinkKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr std::uint32_t kNvLinkSide = bit(LinkKind::NvLink);
constexpr std::uint32_t kHostSide =
    bit(LinkKind::Pcie) | bit(LinkKind::ChipToChip) | bit(LinkKind::Socket);
constexpr std::uint32_t kFabricSide = bit(LinkKind::NicPort) | bit(LinkKind::LeafSpine) |
                                      bit(LinkKind::SpineCore) | bit(LinkKind::Local) |
                                      bit(LinkKind::Global);

// A global link counts for three hops, so that minimal routes of a dragonfly cross one (local,
// global, local: 5) and never two in a row (6).
constexpr std::uint32_t length_of(LinkKind kind) { return kind == LinkKind::Global ? 3 : 1; }

constexpr std::array<std::string_view, kDeviceKinds> kDeviceNames = {
    "gpu", "nvswitch", "pcie_switch", "nic", "leaf", "spine", "core", "cpu"};
constexpr std::array<std::string_view, kLinkKinds> kLinkNames = {
    "nvlink",       "pcie",   "nic",   "leaf_spine", "spine_core",
    "chip_to_chip", "socket", "local", "global"};

bool is_network_switch(DeviceKind kind) {
  return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
         kind == DeviceKind::CoreSwitch;
}

// A bundle of cables is one link under ideal routing, which loads its cables alike. A hashed flow
// takes one of them.
bool comes_apart(const Link& link) {
  return link.cables > 1 && (bit(link.kind) & kFabricSide) != 0;
}

// Boost's own copy draws warnings. `apart`: bundles of cables become as many links.
std::unique_ptr<ClusterGraph> copied(const ClusterGraph& graph, bool apart) {
  auto copy = std::make_unique<ClusterGraph>(boost::num_vertices(graph));
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    (*copy)[vertex] = graph[vertex];
    for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, graph))) {
      Link link = graph[edge];
      const std::uint32_t parts = apart && comes_apart(link) ? link.cables : 1;
      link.capacity = link.capacity / parts;
      link.nominal = link.nominal / parts;
      link.cables /= parts;
      for (std::uint32_t part = 0; part < parts; ++part)
        boost::add_edge(vertex, boost::target(edge, graph), link, *copy);
    }
  }
  return copy;
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
    : Cluster(std::move(facts), copied(graph, false), std::move(gpus), std::move(nic_of_gpu)) {}

Cluster::Cluster(ClusterFacts facts, std::unique_ptr<ClusterGraph> graph,
                 std::vector<DeviceId> gpus, std::vector<DeviceId> nic_of_gpu)
    : facts_(std::move(facts)),
      graph_(std::move(graph)),
      gpus_(std::move(gpus)),
      nic_of_gpu_(std::move(nic_of_gpu)) {
  TY_CHECK(!gpus_.empty());
  TY_CHECK(gpus_.size() == std::size_t{facts_.nodes} * facts_.gpus_per_node, gpus_.size());
  TY_CHECK(nic_of_gpu_.empty() || nic_of_gpu_.size() == gpus_.size(), nic_of_gpu_.size());
  TY_CHECK(!has_mixed_gpus() || facts_.mixed_gpus.size() == gpus_.size(), facts_.mixed_gpus.size());
  TY_CHECK(!nic_of_gpu_.empty() || facts_.nodes == 1, facts_.nodes);
  if (facts_.routing.kind != Routing::Kind::Ideal) graph_ = copied(*graph_, true);
  number_links();
  check_links();
  find_bundles();
  nvlink_ = node_net(kNvLinkSide, true);
  host_ = node_net(kHostSide, false);
  fabric_ = fabric_net();
  if (facts_.routing.kind == Routing::Kind::Ideal) fill_bundled_fabric();
  compare_nodes();
  gpus_relay_ = std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.kind == LinkKind::NvLink && device(link.from).kind == DeviceKind::Gpu &&
           device(link.to).kind == DeviceKind::Gpu;
  });
  if (!nic_of_gpu_.empty()) make_ports();
  check_reachable();
}

std::uint32_t Cluster::node_of(std::uint32_t gpu) const { return gpu / facts_.gpus_per_node; }
std::uint32_t Cluster::local_index(std::uint32_t gpu) const { return gpu % facts_.gpus_per_node; }

GpuKind Cluster::gpu_kind(std::uint32_t gpu) const {
  if (has_mixed_gpus()) return facts_.mixed_gpus.at(gpu);
  return {.profile = facts_.gpu, .memory = facts_.gpu_memory};
}

void Cluster::number_links() {
  links_.reserve(boost::num_edges(*graph_));
  first_link_.reserve(boost::num_vertices(*graph_) + 1);
  for (const auto vertex : boost::make_iterator_range(boost::vertices(*graph_))) {
    first_link_.push_back(static_cast<LinkId>(links_.size()));
    for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, *graph_))) {
      Link& link = (*graph_)[edge];
      link.id = static_cast<LinkId>(links_.size());
      link.from = static_cast<DeviceId>(vertex);
      link.to = static_cast<DeviceId>(boost::target(edge, *graph_));
      links_.push_back(link);
    }
  }
  first_link_.push_back(static_cast<LinkId>(links_.size()));
}

void Cluster::check_links() const {
  for (const Link& link : links_) {
    if (link.capacity.value() > 0.0 && std::isfinite(link.capacity.value())) continue;
    refuse(fmt::format("the {} link from {} to {} has a capacity of {} B/s", to_string(link.kind),
                       device(link.from).name, device(link.to).name, link.capacity.value()),
           "give it a positive capacity or leave the link out");
  }
}

void Cluster::find_bundles() {
  LinkBundles found = link_bundles(*this);
  bundle_of_ = std::move(found.of_link);
  wired_like_ = std::move(found.of_device);
  std::vector<bool> shared(links_.size(), false);
  for (LinkId link = 0; link < links_.size(); ++link)
    if (bundle_of_[link] != link) shared[bundle_of_[link]] = true;
  for (LinkId link = 0; link < links_.size(); ++link)
    if (shared[bundle_of_[link]]) bundled_.push_back(link);
  std::ranges::stable_sort(bundled_, {}, [&](LinkId link) { return bundle_of_[link]; });
}

std::span<const LinkId> Cluster::bundle(LinkId lowest) const {
  return std::ranges::equal_range(bundled_, lowest, {},
                                  [&](LinkId link) { return bundle_of_[link]; });
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

void Cluster::compare_nodes() {
  nodes_.resize(facts_.nodes);
  std::vector<std::vector<std::uint64_t>> wiring(facts_.nodes);
  for (DeviceId id = 0; id < boost::num_vertices(*graph_); ++id)
    if (const std::int32_t node = device(id).node; node >= 0)
      wiring[static_cast<std::size_t>(node)].push_back(static_cast<std::uint64_t>(device(id).kind));
  for (const Link& link : links_) {
    const std::int32_t node = device(link.from).node;
    if (node < 0 || device(link.to).node != node) continue;
    nodes_[static_cast<std::size_t>(node)].links.push_back(link.id);
    std::vector<std::uint64_t>& known_by = wiring[static_cast<std::size_t>(node)];
    known_by.push_back(std::uint64_t{nvlink_.place[link.from]} << 32U | nvlink_.place[link.to]);
    known_by.push_back(static_cast<std::uint64_t>(link.kind) << 32U | link.cables);
  }
  std::map<std::vector<std::uint64_t>, std::uint32_t> first_wired_so;
  for (std::uint32_t node = 0; node < facts_.nodes; ++node)
    nodes_[node].like = first_wired_so.try_emplace(std::move(wiring[node]), node).first->second;
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
  std::uint32_t size = 0;
  for (DeviceId id = 0; id < devices; ++id) {
    if (is_network_switch(device(id).kind)) net.relays[id] = true;
    if (net.relays[id]) net.place[id] = size++;
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
  std::vector<LinkId> members;
  for (const Link& link : links_) {
    if (!belongs(link)) continue;
    members.push_back(link.id);
    net.plain = net.plain && length_of(link.kind) == 1;
  }
  const auto fill = [&](Adjacency& adjacency, DeviceId Link::*near, DeviceId Link::*far) {
    adjacency.begin.assign(boost::num_vertices(*graph_) + 1, 0);
    for (const LinkId id : members) ++adjacency.begin[links_[id].*near + 1];
    for (std::size_t i = 1; i < adjacency.begin.size(); ++i) {
      adjacency.begin[i] += adjacency.begin[i - 1];
    }
    adjacency.arcs.resize(adjacency.begin.back());
    std::vector<std::uint32_t> next(adjacency.begin.begin(), adjacency.begin.end() - 1);
    for (const LinkId id : members) {
      const Link& link = links_[id];
      adjacency.arcs[next[link.*near]++] = {link.*far, net.place[link.*far], link.id, link.cables,
                                            length_of(link.kind)};
    }
    // A dealt flow picks by position, which must not depend on the order of the links in a file.
    if (facts_.routing.kind == Routing::Kind::Ideal) return;
    for (std::size_t i = 0; i + 1 < adjacency.begin.size(); ++i) {
      std::sort(adjacency.arcs.begin() + adjacency.begin[i],
                adjacency.arcs.begin() + adjacency.begin[i + 1], [](const Arc& a, const Arc& b) {
                  return std::pair(a.device, a.link) < std::pair(b.device, b.link);
                });
    }
  };
  fill(net.out, &Link::from, &Link::to);
  fill(net.in, &Link::to, &Link::from);
}

void Cluster::make_ports() {
  std::vector<std::vector<LinkId>> up(boost::num_vertices(*graph_));
  std::vector<std::vector<LinkId>> down(boost::num_vertices(*graph_));
  for (const Link& link : links_) {
    if (link.kind != LinkKind::NicPort) continue;
    up[link.from].push_back(link.id);
    down[link.to].push_back(link.id);
  }
  std::map<std::vector<DeviceId>, std::uint32_t> target_of;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const DeviceId nic = nic_of_gpu_[gpu];
    Port port{.out = shortest_paths(host_, gpus_[gpu], nic),
              .in = shortest_paths(host_, nic, gpus_[gpu])};
    if (port.out.empty() || port.in.empty()) {
      refuse(fmt::format("{} has no way to its NIC {} and back", device(gpus_[gpu]).name,
                         device(nic).name),
             "join them by pcie or chip_to_chip links in both directions");
    }
    cable_port(port, nic, up[nic], down[nic]);
    std::vector<DeviceId> switches;
    for (const Arc& arc : port.down) switches.push_back(arc.device);
    std::sort(switches.begin(), switches.end());
    switches.erase(std::unique(switches.begin(), switches.end()), switches.end());
    const auto [known, added] =
        target_of.try_emplace(std::move(switches), static_cast<std::uint32_t>(targets_.size()));
    if (added) targets_.push_back(known->first);
    port.target = known->second;
    ports_.push_back(std::move(port));
  }
  number_ports();
  tabulate_fabric();
  tabulate_latency();
  find_components();
}

void Cluster::cable_port(Port& port, DeviceId nic, std::span<const LinkId> up,
                         std::span<const LinkId> down) const {
  if (fabric_.relays[nic]) {
    port.up = port.down = {{.device = nic, .place = fabric_.place[nic]}};
    return;
  }
  for (const LinkId id : up) {
    const Link& cable = link(id);
    port.up.push_back({cable.to, fabric_.place[cable.to], id, cable.cables});
    port.up_latency_s = std::max(port.up_latency_s, cable.latency.value());
  }
  for (const LinkId id : down) {
    const Link& cable = link(id);
    port.down.push_back({cable.from, fabric_.place[cable.from], id, cable.cables});
    port.down_latency_s = std::max(port.down_latency_s, cable.latency.value());
  }
  if (port.up.empty() || port.down.empty()) {
    refuse(fmt::format("{} and the fabric cannot reach each other", device(nic).name),
           "add nic links in both directions, or give its GPUs another NIC");
  }
}

void Cluster::number_ports() {
  std::vector<std::uint32_t> next(targets_.size() + 1, 0);
  for (const Port& port : ports_) ++next[port.target + 1];
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  for (Port& port : ports_) port.number = next[port.target]++;
}

void Cluster::tabulate_latency() {
  double up = std::numeric_limits<double>::infinity();
  double down = up;
  for (const Port& port : ports_) {
    up = std::min(up, port.up_latency_s);
    down = std::min(down, port.down_latency_s);
  }
  reference_latency_s_ = up + down;
  bool alike = fabric_.plain;
  for (const Arc& arc : fabric_.out.arcs) {
    const double latency = link(arc.link).latency.value();
    alike = alike && (!hop_latency_s_ || *hop_latency_s_ == latency);
    hop_latency_s_ = latency;
  }
  if (!hop_latency_s_) hop_latency_s_ = 0.0;
  if (alike) return;
  hop_latency_s_.reset();
  for (std::size_t i = 0; i < fabric_hops_.size(); ++i) {
    fabric_latency_.push_back(slowest_path(fabric_, fabric_hops_[i], targets_[i]));
  }
}

// A port belongs to the first component whose first port it reaches and is reached from.
void Cluster::find_components() {
  for (Port& port : ports_) port.component = kNone;
  const auto reached = [](const Hops& hops, const std::vector<Arc>& ends) {
    return std::any_of(ends.begin(), ends.end(),
                       [&](const Arc& end) { return hops[end.place] != kUnreachable; });
  };
  for (std::size_t first = 0; first < ports_.size(); ++first) {
    if (ports_[first].component != kNone) continue;
    if (components_ == facts_.gpus_per_node && components_ > 0) {
      refuse(fmt::format("{} and {} cannot reach each other over the fabric",
                         device(gpus_.front()).name, device(gpus_[first]).name),
             "add the links that join them, in both directions");
    }
    std::vector<DeviceId> starts;
    for (const Arc& arc : ports_[first].up) starts.push_back(arc.device);
    const Hops there = search(fabric_, fabric_.in, targets_[ports_[first].target]);
    const Hops back = search(fabric_, fabric_.out, starts);
    for (std::size_t i = first; i < ports_.size(); ++i) {
      Port& port = ports_[i];
      if (port.component != kNone) continue;
      if (i == first || (reached(there, port.up) && reached(back, port.down))) {
        port.component = components_;
      }
    }
    ++components_;
  }
}

void Cluster::check_reachable() const {
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); gpu += facts_.gpus_per_node) {
    if ((!ports_.empty() && components_ == 1) || is_joined(gpu)) continue;
    refuse(fmt::format("not every GPU of its node can reach {}", device(gpus_[gpu]).name),
           "join the GPUs of a node by nvlink or pcie links in both directions");
  }
  if (components_ > 1) check_components();
}

// Nodes need one part of the fabric in common; inside them GPUs pass messages on.
void Cluster::check_components() const {
  std::map<std::vector<bool>, std::uint32_t> kinds;  // parts that a node has ports on; such a GPU
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); gpu += facts_.gpus_per_node) {
    std::vector<bool> parts(components_, false);
    for (std::uint32_t i = gpu; i < gpu + facts_.gpus_per_node; ++i) {
      parts[ports_[i].component] = true;
    }
    kinds.try_emplace(std::move(parts), gpu);
  }
  for (const auto& [a, gpu_a] : kinds) {
    for (const auto& [b, gpu_b] : kinds) {
      bool shared = false;
      for (std::size_t i = 0; i < components_; ++i) shared = shared || (a[i] && b[i]);
      if (shared) continue;
      const auto [low, high] = std::minmax(gpu_a, gpu_b);
      refuse(fmt::format("{} and {} cannot reach each other over the fabric",
                         device(gpus_[low]).name, device(gpus_[high]).name),
             "add the links that join them, in both directions");
    }
  }
}

bool Cluster::is_joined(std::uint32_t first_gpu) const {
  const auto reaches_all = [&](const Net& net, DeviceId target) {
    const Hops hops = hops_to(net, target);
    return std::all_of(gpus_.begin() + first_gpu, gpus_.begin() + first_gpu + facts_.gpus_per_node,
                       [&](DeviceId gpu) { return hops[net.place[gpu]] != kUnreachable; });
  };
  for (std::uint32_t i = first_gpu; i < first_gpu + facts_.gpus_per_node; ++i) {
    if (!reaches_all(nvlink_, gpus_[i]) && !reaches_all(host_, gpus_[i])) return false;
  }
  return true;
}

}  // namespace trainyard
