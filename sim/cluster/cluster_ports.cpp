// Where GPUs enter the fabric: the cables of their NICs, the switches these hang on, and which of
// them reach each other.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/strided_nics.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(std::string problem, std::string remedy) {
  throw InputError(Problem{"", "", std::move(problem), std::move(remedy)});
}

// Once each, ascending.
std::vector<std::uint32_t> places_of(const auto& cables) {
  std::vector<std::uint32_t> places;
  for (const Arc& arc : cables) places.push_back(arc.place);
  std::ranges::sort(places);
  const auto doubled = std::ranges::unique(places);
  places.erase(doubled.begin(), doubled.end());
  return places;
}

bool all_reached(const std::vector<bool>& wanted, const Hops& hops) {
  for (std::size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] && hops[place] == kUnreachable) return false;
  return true;
}

}  // namespace

void Cluster::make_ports() {
  check_ways_to_nics();
  const std::vector<bool> has_ports = cable_ports();
  find_targets();
  if (facts_.routing.kind == Routing::Kind::RoundRobin) number_ports();
  tabulate_fabric();
  tabulate_latency();
  find_components(has_ports);
  only_switches_ = fabric_.plain && std::ranges::all_of(fabric_devices_, [&](DeviceId id) {
                     return is_fabric_switch(device(id).kind);
                   });
}

// Looked at once for nodes of one shape whose GPUs have the same NICs.
void Cluster::check_ways_to_nics() const {
  std::vector<std::uint32_t> checked(shapes_.size(), kNone);
  for (std::uint32_t node = 0; node < facts_.nodes; ++node) {
    std::uint32_t& last = checked[shape_of_node_[node]];
    if (last != kNone && has_ports_like(node, last)) continue;
    last = node;
    for (std::uint32_t i = 0; i < facts_.gpus_per_node; ++i) {
      const DeviceId gpu = gpus_[node * facts_.gpus_per_node + i];
      const DeviceId nic = nic_of_gpu_[node * facts_.gpus_per_node + i];
      if (!way(Side::Host, gpu, nic).empty() && !way(Side::Host, nic, gpu).empty()) continue;
      refuse(fmt::format("{} has no way to its NIC {} and back", name(gpu), name(nic)),
             "join them by pcie or chip_to_chip links in both directions");
    }
  }
}

bool Cluster::has_ports_like(std::uint32_t node, std::uint32_t other) const {
  const std::uint32_t gpus = facts_.gpus_per_node;
  const std::size_t here = std::size_t{node} * gpus;
  const std::size_t there = std::size_t{other} * gpus;
  const auto alike = [&](const std::vector<DeviceId>& devices) {
    const bool in_a_row = place_.empty();
    const DeviceId apart = in_a_row ? device_at(node, 0) - device_at(other, 0) : 0;
    for (std::uint32_t i = 0; i < gpus; ++i) {
      const DeviceId a = devices[here + i];
      const DeviceId b = devices[there + i];
      if (in_a_row ? a - b != apart : place_[a] != place_[b]) return false;
    }
    return true;
  };
  return alike(gpus_) && alike(nic_of_gpu_);
}

// Calls use(way, place, devices, links) for the cables between a device of the fabric and some
// beside it.
template <class Use>
void Cluster::for_each_cable(Use use) const {
  const bool nics_pass_on = std::ranges::any_of(
      fabric_devices_, [&](DeviceId id) { return !is_fabric_switch(device(id).kind); });
  const auto tell = [&](DeviceId from, DeviceId to, const Series& beside, const Series& links) {
    if (const std::uint32_t place = fabric_place(to); place != kNoPlace) {
      if (fabric_place(beside.first) == kNoPlace) use(Way::Up, place, beside, links);
    } else if (const std::uint32_t start = fabric_place(from); start != kNoPlace) {
      use(Way::Down, start, beside, links);
    }
  };
  wiring_.for_each_series([&](const auto& series) {
    const auto& [links, from, to, from_kind, to_kind, wire] = series;
    if (wiring_.wires()[wire].kind != LinkKind::NicPort) return;
    const bool up = is_fabric_switch(to_kind);
    const Series& ends = up ? to : from;
    if (!nics_pass_on && up != is_fabric_switch(from_kind) && (ends.step == 0 || ends.count == 1))
      return tell(from.first, to.first, up ? from : to, links);
    for (std::uint32_t i = 0; i < links.count; ++i) {
      const bool to_fabric = fabric_place(to[i]) != kNoPlace;
      tell(from[i], to[i], {to_fabric ? from[i] : to[i]}, {links[i]});
    }
  });
}

// By place of the fabric, whether NICs hang on it.
std::vector<bool> Cluster::cable_ports() {
  std::vector<bool> has_ports(fabric_devices_.size(), false);
  if (const auto own = StridedNics::of(nic_of_gpu_, facts_.gpus_per_node)) {
    StridedCables cables(*own);
    for_each_cable([&](Way way, std::uint32_t place, const Series& devices, const Series& links) {
      if (cables.add(way == Way::Up, place, devices, links)) has_ports[place] = true;
    });
    if (cables.are_all()) {
      up_ = PortLinks(std::move(cables).up());
      down_ = PortLinks(std::move(cables).down());
      target_ = std::move(cables).places();
      return has_ports;
    }
  }
  std::vector<std::uint32_t> number(device_count(), kNone);  // of NICs
  std::uint32_t nics = 0;
  bool in_fabric = false;
  for (const DeviceId nic : nic_of_gpu_) {
    if (number[nic] == kNone) number[nic] = nics++;
    const std::uint32_t place = fabric_place(nic);
    if (place == kNoPlace) continue;
    in_fabric = has_ports[place] = true;
  }
  NicLinks up(nics);
  NicLinks down(nics);
  for_each_cable([&](Way way, std::uint32_t place, const Series& devices, const Series& links) {
    for (std::uint32_t i = 0; i < devices.count; ++i) {
      const std::uint32_t nic = number[devices[i]];
      if (nic == kNone) continue;
      (way == Way::Up ? up : down).add(nic, links[i]);
      has_ports[place] = true;
    }
  });
  // Where each GPU has a NIC of its own, these are numbered as they are.
  const bool own = nics == gpus_.size() && !in_fabric;
  const auto by_gpu = [&](NicLinks links) {
    if (own && links.one_each()) return std::move(links).as_they_are();
    return std::move(links).by_gpu(
        static_cast<std::uint32_t>(gpus_.size()), [&](std::uint32_t gpu) {
          const DeviceId nic = nic_of_gpu_[gpu];
          return fabric_place(nic) == kNoPlace ? number[nic] : NicLinks::kNoNic;
        });
  };
  up_ = by_gpu(std::move(up));
  down_ = by_gpu(std::move(down));
  check_cabled();
  return has_ports;
}

Cluster::Arcs Cluster::arcs(Way way, std::uint32_t gpu, std::span<const LinkId> links) const {
  const auto at = [&](const LinkId* link) {
    return boost::transform_iterator<ArcAt, const LinkId*, Arc>(link, ArcAt{this, way, gpu});
  };
  return {at(links.data()), at(links.data() + links.size())};
}

Arc Cluster::port_arc(Way way, std::uint32_t gpu, LinkId link) const {
  if (link == kNoLink) return {.place = fabric_place(nic_of_gpu_[gpu])};
  const Strand strand = wiring_.strand(link);
  return {.place = fabric_place(way == Way::Up ? strand.to : strand.from),
          .link = link,
          .cables = wiring_.wires()[strand.wire].cables};
}

void Cluster::check_cabled() const {
  if (up_.one_each() && down_.one_each()) return;
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (!up_.of(gpu).empty() && !down_.of(gpu).empty()) continue;
    refuse(fmt::format("{} and the fabric cannot reach each other", name(nic_of_gpu_[gpu])),
           "add nic links in both directions, or give its GPUs another NIC");
  }
}

// Most NICs hang on one switch; where all do by one cable each it is known by now.
void Cluster::find_targets() {
  std::vector<std::uint32_t> of_switch(fabric_devices_.size(), kNone);
  std::map<std::vector<std::uint32_t>, std::uint32_t> of_switches;
  for (std::uint32_t& target : target_) {
    const std::uint32_t place = target;
    if (of_switch[place] == kNone) {
      of_switch[place] = static_cast<std::uint32_t>(targets_.size());
      targets_.push_back({place});
    }
    target = of_switch[place];
  }
  target_.reserve(gpus_.size());
  for (auto gpu = static_cast<std::uint32_t>(target_.size()); gpu < gpus_.size(); ++gpu) {
    const auto next = static_cast<std::uint32_t>(targets_.size());
    const Arcs cables = down(gpu);
    const std::uint32_t first = cables.front().place;
    const bool one = cables.size() == 1 || std::ranges::all_of(cables, [&](const Arc& arc) {
                       return arc.place == first;
                     });
    std::uint32_t& target =
        one ? of_switch[first] : of_switches.try_emplace(places_of(cables), kNone).first->second;
    if (target == kNone) {
      target = next;
      targets_.push_back(places_of(cables));
    }
    target_.push_back(target);
  }
}

void Cluster::number_ports() {
  std::vector<std::uint32_t> next(targets_.size() + 1, 0);
  for (const std::uint32_t target : target_) ++next[target + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (const std::uint32_t target : target_) port_number_.push_back(next[target]++);
}

double Cluster::slowest(Way way, std::uint32_t gpu) const {
  double latency = 0.0;
  for (const LinkId link : (way == Way::Up ? up_ : down_).of(gpu))
    if (link != kNoLink) latency = std::max(latency, wiring_.wire(link).latency.value());
  return latency;
}

// A port belongs to the first component whose first port it reaches and is reached from.
void Cluster::find_components(const std::vector<bool>& has_ports) {
  const auto reached = [](const Hops& hops, const Arcs& ends) {
    return std::ranges::any_of(ends,
                               [&](const Arc& end) { return hops[end.place] != kUnreachable; });
  };
  for (std::uint32_t first = 0; first < gpus_.size(); ++first) {
    if (!component_.empty() && component_[first] != kNone) continue;
    if (components_ == facts_.gpus_per_node && components_ > 0) {
      refuse(fmt::format("{} and {} cannot reach each other over the fabric", name(gpus_.front()),
                         name(gpus_[first])),
             "add the links that join them, in both directions");
    }
    std::vector<std::uint32_t> starts;
    for (const Arc& arc : up(first)) starts.push_back(arc.place);
    const Hops there = search(fabric_, fabric_.in, targets_[target_[first]]);
    const Hops back = search(fabric_, fabric_.out, starts);
    ++components_;
    if (first == 0 && all_reached(has_ports, there) && all_reached(has_ports, back)) return;
    component_.resize(gpus_.size(), kNone);
    for (std::uint32_t gpu = first; gpu < gpus_.size(); ++gpu) {
      if (component_[gpu] != kNone) continue;
      if (gpu == first || (reached(there, up(gpu)) && reached(back, down(gpu))))
        component_[gpu] = components_ - 1;
    }
  }
}

void Cluster::check_reachable() const {
  std::vector<bool> joined(shapes_.size(), components_ == 1);
  for (std::uint32_t node = 0; node < facts_.nodes; ++node) {
    const std::uint32_t shape = shape_of_node_[node];
    if (!joined[shape] && !is_joined(node))
      refuse(fmt::format("not every GPU of its node can reach {}",
                         name(gpus_[std::size_t{node} * facts_.gpus_per_node])),
             "join the GPUs of a node by nvlink or pcie links in both directions");
    joined[shape] = true;
  }
  if (components_ > 1) check_components();
}

// Nodes need one part of the fabric in common; inside them GPUs pass messages on.
void Cluster::check_components() const {
  std::map<std::vector<bool>, std::uint32_t> kinds;  // parts that a node has ports on; such a GPU
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); gpu += facts_.gpus_per_node) {
    std::vector<bool> parts(components_, false);
    for (std::uint32_t i = gpu; i < gpu + facts_.gpus_per_node; ++i) {
      parts[component(i)] = true;
    }
    kinds.try_emplace(std::move(parts), gpu);
  }
  for (const auto& [a, gpu_a] : kinds) {
    for (const auto& [b, gpu_b] : kinds) {
      bool shared = false;
      for (std::size_t i = 0; i < components_; ++i) shared = shared || (a[i] && b[i]);
      if (shared) continue;
      const auto [low, high] = std::minmax(gpu_a, gpu_b);
      refuse(fmt::format("{} and {} cannot reach each other over the fabric", name(gpus_[low]),
                         name(gpus_[high])),
             "add the links that join them, in both directions");
    }
  }
}

}  // namespace trainyard
