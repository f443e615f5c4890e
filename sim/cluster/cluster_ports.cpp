// Where GPUs enter the fabric: the cables of their NICs, the switches these hang on, and which of
// them reach each other.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(std::string problem, std::string remedy) {
  throw InputError(Problem{"", "", std::move(problem), std::move(remedy)});
}

// The cables of NICs one way, counted first and then laid down, NIC by NIC.
class NicCables {
 public:
  explicit NicCables(std::uint32_t nics) : next_(nics + std::size_t{1}, 0) {}
  void count(std::uint32_t nic) { ++next_[nic + std::size_t{1}]; }
  // All are counted.
  void lay_out() {
    std::partial_sum(next_.begin(), next_.end(), next_.begin());
    laid_.begin = next_;
    laid_.arcs.resize(next_.back());
  }
  void place(std::uint32_t nic, const Arc& arc) { laid_.arcs[next_[nic]++] = arc; }
  [[nodiscard]] Adjacency laid() && { return std::move(laid_); }

 private:
  std::vector<std::uint32_t> next_;
  Adjacency laid_;
};

// Once each, ascending.
std::vector<std::uint32_t> places_of(std::span<const Arc> cables) {
  std::vector<std::uint32_t> places;
  for (const Arc& arc : cables) places.push_back(arc.place);
  std::ranges::sort(places);
  const auto doubled = std::ranges::unique(places);
  places.erase(doubled.begin(), doubled.end());
  return places;
}

}  // namespace

void Cluster::make_ports(const std::vector<std::uint32_t>& fabric_place) {
  check_ways_to_nics();
  cable_ports(fabric_place);
  ports_.resize(gpus_.size());
  find_targets();
  number_ports();
  tabulate_fabric();
  tabulate_latency();
  find_components();
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
  for (std::uint32_t i = 0; i < gpus; ++i) {
    const std::uint32_t here = node * gpus + i;
    const std::uint32_t there = other * gpus + i;
    if (place_[gpus_[here]] != place_[gpus_[there]]) return false;
    if (place_[nic_of_gpu_[here]] != place_[nic_of_gpu_[there]]) return false;
  }
  return true;
}

void Cluster::cable_ports(const std::vector<std::uint32_t>& fabric_place) {
  std::vector<std::uint32_t> number(device_count(), kNone);  // of NICs
  std::uint32_t nics = 0;
  bool in_fabric = false;
  for (const DeviceId nic : nic_of_gpu_) {
    if (number[nic] == kNone) number[nic] = nics++;
    in_fabric = in_fabric || fabric_place[nic] != kNone;
  }
  const auto for_each_cable = [&](const auto& up, const auto& down) {
    wiring_.for_each_outside_patterns([&](LinkId id, const Strand& strand) {
      const Wire& wire = wiring_.wires()[strand.wire];
      if (wire.kind != LinkKind::NicPort) return;
      const std::uint32_t from = fabric_place[strand.from];
      const std::uint32_t to = fabric_place[strand.to];
      if ((from == kNone) == (to == kNone)) return;
      const std::uint32_t nic = number[from == kNone ? strand.from : strand.to];
      if (nic == kNone) return;
      if (to != kNone) up(nic, Arc{to, id, wire.cables});
      if (from != kNone) down(nic, Arc{from, id, wire.cables});
    });
  };
  NicCables up(nics);
  NicCables down(nics);
  for_each_cable([&](std::uint32_t nic, const Arc&) { up.count(nic); },
                 [&](std::uint32_t nic, const Arc&) { down.count(nic); });
  for (NicCables* cables : {&up, &down}) cables->lay_out();
  for_each_cable([&](std::uint32_t nic, const Arc& arc) { up.place(nic, arc); },
                 [&](std::uint32_t nic, const Arc& arc) { down.place(nic, arc); });
  // Where each GPU has a NIC of its own, these are numbered as they are.
  const bool one_each = nics == gpus_.size() && !in_fabric;
  const auto of_gpus = [&](Adjacency of_nic) {
    if (one_each) return of_nic;
    Adjacency ports;
    ports.begin.push_back(0);
    for (const DeviceId nic : nic_of_gpu_) {
      if (fabric_place[nic] != kNone) {
        ports.arcs.push_back({.place = fabric_place[nic]});
      } else {
        for (const Arc& arc : of_nic.of(number[nic])) ports.arcs.push_back(arc);
      }
      ports.begin.push_back(static_cast<std::uint32_t>(ports.arcs.size()));
    }
    return ports;
  };
  up_ = of_gpus(std::move(up).laid());
  down_ = of_gpus(std::move(down).laid());
  check_cabled();
}

void Cluster::check_cabled() const {
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (!up_.of(gpu).empty() && !down_.of(gpu).empty()) continue;
    refuse(fmt::format("{} and the fabric cannot reach each other", name(nic_of_gpu_[gpu])),
           "add nic links in both directions, or give its GPUs another NIC");
  }
}

// Most NICs hang on one switch.
void Cluster::find_targets() {
  std::vector<std::uint32_t> of_switch(fabric_devices_.size(), kNone);
  std::map<std::vector<std::uint32_t>, std::uint32_t> of_switches;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const auto next = static_cast<std::uint32_t>(targets_.size());
    const std::span<const Arc> cables = down_.of(gpu);
    const std::uint32_t first = cables.front().place;
    const bool one =
        std::ranges::all_of(cables, [&](const Arc& arc) { return arc.place == first; });
    std::uint32_t& target =
        one ? of_switch[first] : of_switches.try_emplace(places_of(cables), kNone).first->second;
    if (target == kNone) {
      target = next;
      targets_.push_back(places_of(cables));
    }
    ports_[gpu].target = target;
  }
}

void Cluster::number_ports() {
  std::vector<std::uint32_t> next(targets_.size() + 1, 0);
  for (const Port& port : ports_) ++next[port.target + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (Port& port : ports_) port.number = next[port.target]++;
}

double Cluster::slowest(std::span<const Arc> cables) const {
  double latency = 0.0;
  for (const Arc& cable : cables)
    if (cable.link != kNoLink)
      latency = std::max(latency, wiring_.wire(cable.link).latency.value());
  return latency;
}

// A port belongs to the first component whose first port it reaches and is reached from.
void Cluster::find_components() {
  for (Port& port : ports_) port.component = kNone;
  const auto reached = [](const Hops& hops, std::span<const Arc> ends) {
    return std::ranges::any_of(ends,
                               [&](const Arc& end) { return hops[end.place] != kUnreachable; });
  };
  for (std::size_t first = 0; first < ports_.size(); ++first) {
    if (ports_[first].component != kNone) continue;
    if (components_ == facts_.gpus_per_node && components_ > 0) {
      refuse(fmt::format("{} and {} cannot reach each other over the fabric", name(gpus_.front()),
                         name(gpus_[first])),
             "add the links that join them, in both directions");
    }
    std::vector<std::uint32_t> starts;
    for (const Arc& arc : up_.of(first)) starts.push_back(arc.place);
    const Hops there = search(fabric_, fabric_.in, targets_[ports_[first].target]);
    const Hops back = search(fabric_, fabric_.out, starts);
    for (std::size_t i = first; i < ports_.size(); ++i) {
      if (ports_[i].component != kNone) continue;
      if (i == first || (reached(there, up_.of(i)) && reached(back, down_.of(i))))
        ports_[i].component = components_;
    }
    ++components_;
  }
}

void Cluster::check_reachable() const {
  std::vector<bool> joined(shapes_.size(), !ports_.empty() && components_ == 1);
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
      refuse(fmt::format("{} and {} cannot reach each other over the fabric", name(gpus_[low]),
                         name(gpus_[high])),
             "add the links that join them, in both directions");
    }
  }
}

}  // namespace trainyard
