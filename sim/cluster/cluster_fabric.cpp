// What routes through one fabric have in common: the distances to the switches of its endpoints,
// and the trunks between two of them.
#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

// Entries of the distance table of the fabric: 64 Mi of two bytes. 65 536 endpoints of a
// three-level fat-tree need 10 Mi.
constexpr std::size_t kTableMost = std::size_t{1} << 26U;

// A global link counts for three hops, so that minimal routes of a dragonfly cross one (local,
// global, local: 5) and never two in a row (6).
constexpr std::uint32_t length_of(LinkKind kind) { return kind == LinkKind::Global ? 3 : 1; }

}  // namespace

// A NIC forwards the traffic of others only where NICs are cabled to each other (a torus of nodes):
// a NIC with ports on two leaves is no bridge between them.
void Cluster::place_fabric() {
  std::vector<DeviceId> nics;
  wiring_.for_each_series([&](const LinkSeries& series) {
    if (series.from_kind != DeviceKind::Nic || series.to_kind != DeviceKind::Nic) return;
    for (std::uint32_t i = 0; i < series.links.count; ++i)
      nics.insert(nics.end(), {series.from[i], series.to[i]});
  });
  std::ranges::sort(nics);
  first_fabric_device_ =
      nics.empty() ? wiring_.runs_end() : std::min(wiring_.runs_end(), nics.front());
  fabric_place_.assign(device_count() - first_fabric_device_, kNoPlace);
  for (DeviceId id = first_fabric_device_; id < device_count(); ++id) {
    if (!is_fabric_switch(device(id).kind) && !std::ranges::binary_search(nics, id)) continue;
    fabric_place_[id - first_fabric_device_] = static_cast<std::uint32_t>(fabric_devices_.size());
    fabric_devices_.push_back(id);
  }
}

void Cluster::lay_out_fabric() {
  std::vector<NetLink> links;
  for (const DeviceId id : fabric_devices_) {
    for (const Link link : links_from(id)) {
      if (!is_fabric_side(link.kind) || fabric_place(link.to) == kNoPlace) continue;
      links.push_back({.from = fabric_place(id),
                       .to = fabric_place(link.to),
                       .link = link.id,
                       .cables = link.cables,
                       .length = length_of(link.kind)});
    }
  }
  fabric_ = laid_out(std::vector<bool>(fabric_devices_.size(), true), links, ArcOrder::OfPlaces);
}

// Every bundle is one arc of all its cables, between the lowest of switches wired alike. Those with
// endpoints are each like no other, so ways between them are found as over all links.
void Cluster::lay_out_bundles() {
  std::vector<NetLink> bundles;
  const auto add = [&](LinkId lowest) {
    const Link link = this->link(lowest);
    if (!is_fabric_side(link.kind) || fabric_place(link.to) == kNoPlace) return;
    const auto links =
        static_cast<std::uint32_t>(std::max<std::size_t>(1, bundles_.links(lowest).size()));
    bundles.push_back({.from = fabric_place(link.from),
                       .to = fabric_place(bundles_.wired_like(link.to)),
                       .link = lowest,
                       .cables = link.cables * links,
                       .length = length_of(link.kind)});
  };
  const bool nics_pass_on = std::ranges::any_of(
      fabric_devices_, [&](DeviceId id) { return !is_fabric_switch(device(id).kind); });
  for (const DeviceId id : fabric_devices_) {
    wiring_.for_each_series_from(id, [&](const LinkSeries& series) {
      if (is_fabric_switch(series.to_kind) || nics_pass_on)
        bundles_.for_each_lowest(series.links, add);
    });
  }
  fabric_ = laid_out(std::vector<bool>(fabric_devices_.size(), true), bundles, ArcOrder::OfLinks);
}

// Switches that are wired to the same others are at the same distance from each of these: one
// search serves all leaves of a pod. Swapping two of them leaves the fabric as it is, so the row of
// one is that of the other with their own two entries swapped.
void Cluster::tabulate_fabric() {
  if (targets_.size() * fabric_devices_.size() > kTableMost) return;
  row_of_target_.reserve(targets_.size());
  std::map<std::vector<std::uint32_t>, Row> wired_so;  // rows of the first
  for (const std::vector<std::uint32_t>& switches : targets_) {
    const auto next = static_cast<std::uint32_t>(fabric_hops_.size());
    Row row{.row = next, .target = switches.front(), .like = switches.front()};
    if (switches.size() == 1) {
      const Row first = wired_so.try_emplace(wiring_at(row.target), row).first->second;
      row.row = first.row;
      row.like = first.target;
    }
    row_of_target_.push_back(row);
    if (row.row == next) fabric_hops_.push_back(search(fabric_, fabric_.in, switches));
  }
}

// All that a search sees of a switch: whom it reaches and who reaches it, in what length.
std::vector<std::uint32_t> Cluster::wiring_at(std::uint32_t place) const {
  const auto ends = [&](std::span<const Arc> arcs) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
    for (const Arc& arc : arcs) result.emplace_back(arc.place, arc.length);
    std::ranges::sort(result);
    const auto doubled = std::ranges::unique(result);
    result.erase(doubled.begin(), doubled.end());
    return result;
  };
  std::vector<std::uint32_t> wiring;
  for (const Adjacency* side : {&fabric_.out, &fabric_.in}) {
    const auto others = ends(side->of(place));
    wiring.push_back(static_cast<std::uint32_t>(others.size()));
    for (const auto& [other, length] : others) wiring.insert(wiring.end(), {other, length});
  }
  return wiring;
}

void Cluster::tabulate_latency() {
  reference_latency_s_ = fastest(Way::Up) + fastest(Way::Down);
  bool alike = fabric_.plain;
  for (const Arc& arc : fabric_.out.arcs) {
    const double latency = wiring_.wire(arc.link).latency.value();
    alike = alike && (!hop_latency_s_ || *hop_latency_s_ == latency);
    hop_latency_s_ = latency;
  }
  if (!hop_latency_s_) hop_latency_s_ = 0.0;
  if (alike) return;
  hop_latency_s_.reset();
  for (std::uint32_t target = 0; target < row_of_target_.size(); ++target)
    fabric_latency_.push_back(fabric_latencies(target, distances(target, {})));
}

// Of all ports. Most clusters have ports of one kind.
double Cluster::fastest(Way way) const {
  std::optional<double> of_all;
  bool alike = !std::ranges::any_of(nic_of_gpu_,
                                    [&](DeviceId nic) { return fabric_place(nic) != kNoPlace; });
  for (const Wire& wire : wiring_.wires()) {
    if (wire.kind != LinkKind::NicPort) continue;
    alike = alike && (!of_all || *of_all == wire.latency.value());
    of_all = wire.latency.value();
  }
  if (alike && of_all) return *of_all;
  double fastest = std::numeric_limits<double>::infinity();
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu)
    fastest = std::min(fastest, slowest(way, gpu));
  return fastest;
}

Latencies Cluster::fabric_latencies(std::uint32_t target, const Distances& hops) const {
  return slowest_path(fabric_, hops, targets_[target],
                      [&](LinkId link) { return wiring_.wire(link).latency.value(); });
}

Hops Cluster::searched(std::uint32_t target) const {
  return row_of_target_.empty() ? search(fabric_, fabric_.in, targets_[target]) : Hops{};
}

Distances Cluster::distances(std::uint32_t target, const Hops& searched) const {
  if (row_of_target_.empty()) return searched;
  const Row& row = row_of_target_[target];
  return {fabric_hops_[row.row], row.target, row.like};
}

// Found once for all NICs of a leaf.
std::shared_ptr<const Trunk> Cluster::trunk(const Arc& start, std::uint32_t target) const {
  const std::uint64_t key = (std::uint64_t{start.place} << 32U) | target;
  return routes_->trunk(key, [&] {
    const Hops here = searched(target);
    const Distances hops = distances(target, here);
    TY_CHECK(hops[start.place] != kUnreachable, start.place, target);
    const Arc at_switch{.place = start.place};
    return trunk_to(std::span(&at_switch, 1), hops, target);
  });
}

// Where routing is ideal switches wired alike pass on alike, so one walk over bundles tells what
// each of their links carries.
Trunk Cluster::trunk_to(std::span<const Arc> starts, const Distances& hops,
                        std::uint32_t target) const {
  Spread paths = spread(fabric_, starts, hops);
  Trunk result{.bundles = std::move(paths.route)};
  for (RouteHop& hop : result.bundles) {
    const std::size_t links = bundles_.links(hop.link).size();
    if (links == 0) continue;
    hop.fraction /= static_cast<double>(links);
    hop.alike = static_cast<std::uint32_t>(links);
  }
  result.arriving.reserve(targets_[target].size());
  for (const std::uint32_t place : targets_[target]) result.arriving.push_back(paths.share[place]);
  return result;
}

void Cluster::append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const {
  for (const RouteHop& hop : trunk.bundles) {
    if (detail == RouteDetail::Bundles || hop.alike == 1) {
      route.push_back(hop);
    } else {
      for (const LinkId link : bundles_.links(hop.link)) route.push_back({link, hop.fraction});
    }
  }
}

}  // namespace trainyard
