// What routes through one fabric have in common: the distances to the switches of its endpoints,
// and the trunks between two of them.
#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/graph/cluster.hpp"

namespace trainyard {

namespace {

// Entries of the distance table of the fabric: 64 Mi of two bytes. 65 536 endpoints of a
// three-level fat-tree need 10 Mi.
constexpr std::size_t kTableMost = std::size_t{1} << 26U;

// Hops of the trunks that are kept: 16 MiB of them. Groups are priced one after the other, those of
// the same leaves in a row, so that a few hundred trunks are in use at a time.
constexpr std::size_t kTrunkHopsMost = std::size_t{1} << 20U;

}  // namespace

// Switches that are wired to the same others are at the same distance from each of these: one
// search serves all leaves of a pod. Swapping two of them leaves the fabric as it is, so the row of
// one is that of the other with their own two entries swapped.
void Cluster::tabulate_fabric() {
  if (targets_.size() * fabric_.zone_size.front() > kTableMost) return;
  fabric_hops_.reserve(targets_.size());
  std::map<std::vector<std::uint32_t>, std::uint32_t> first_wired_so;
  for (std::uint32_t target = 0; target < targets_.size(); ++target) {
    if (targets_[target].size() == 1) {
      const DeviceId self = targets_[target].front();
      const auto [known, fresh] = first_wired_so.try_emplace(wiring_of(self), target);
      if (!fresh) {
        const DeviceId like = targets_[known->second].front();
        Hops hops = fabric_hops_[known->second];
        std::swap(hops[fabric_.place[like]], hops[fabric_.place[self]]);
        fabric_hops_.push_back(std::move(hops));
        continue;
      }
    }
    fabric_hops_.push_back(search(fabric_, fabric_.in, targets_[target]));
  }
}

// All that a search sees of a device: whether paths lead through it, whom it reaches and who
// reaches it, in what length.
std::vector<std::uint32_t> Cluster::wiring_of(DeviceId device) const {
  const auto ends = [&](std::span<const Arc> arcs) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
    for (const Arc& arc : arcs) result.emplace_back(arc.device, arc.length);
    std::ranges::sort(result);
    const auto doubled = std::ranges::unique(result);
    result.erase(doubled.begin(), doubled.end());
    return result;
  };
  std::vector<std::uint32_t> wiring{fabric_.relays[device] ? 1U : 0U};
  for (const Adjacency* side : {&fabric_.out, &fabric_.in}) {
    const auto others = ends(side->of(device));
    wiring.push_back(static_cast<std::uint32_t>(others.size()));
    for (const auto& [other, length] : others) wiring.insert(wiring.end(), {other, length});
  }
  return wiring;
}

Cluster::Hops Cluster::searched(std::uint32_t target) const {
  return fabric_hops_.empty() ? search(fabric_, fabric_.in, targets_[target]) : Hops{};
}

const Cluster::Hops& Cluster::distances(std::uint32_t target, const Hops& searched) const {
  return fabric_hops_.empty() ? searched : fabric_hops_[target];
}

// Every bundle as one arc of all its cables.
void Cluster::fill_bundled_fabric() {
  bundled_fabric_.place = fabric_.place;
  bundled_fabric_.relays = fabric_.relays;
  bundled_fabric_.zone_size = fabric_.zone_size;
  Adjacency& out = bundled_fabric_.out;
  out.begin.assign(boost::num_vertices(*graph_) + 1, 0);
  for (DeviceId device = 0; device + 1 < out.begin.size(); ++device) {
    for (const Arc& arc : fabric_.out.of(device)) {
      if (bundle_of_[arc.link] != arc.link) continue;
      const auto links =
          static_cast<std::uint32_t>(std::max<std::size_t>(1, bundle(arc.link).size()));
      const DeviceId to = wired_like_[arc.device];
      out.arcs.push_back({to, fabric_.place[to], arc.link, arc.cables * links, arc.length});
    }
    out.begin[device + 1] = static_cast<std::uint32_t>(out.arcs.size());
  }
}

// Found once for all NICs of a leaf; valid until the next is asked for.
const Cluster::Trunk& Cluster::trunk(const Arc& start, std::uint32_t target) const {
  const std::uint64_t key = (std::uint64_t{start.place} << 32U) | target;
  if (const auto known = trunks_.find(key); known != trunks_.end()) return known->second;
  const Hops here = searched(target);
  const Hops& hops = distances(target, here);
  TY_CHECK(hops[start.place] != kUnreachable, start.device, target);
  const Arc at_switch{.device = start.device, .place = start.place};
  Trunk found = trunk_to(std::span(&at_switch, 1), hops, target);
  if (trunk_hops_ + found.bundles.size() > kTrunkHopsMost) {
    trunks_.clear();
    trunk_hops_ = 0;
  }
  trunk_hops_ += found.bundles.size();
  return trunks_.emplace(key, std::move(found)).first->second;
}

// Where routing is ideal switches wired alike pass on alike, so one walk over bundles tells what
// each of their links carries.
Cluster::Trunk Cluster::trunk_to(std::span<const Arc> starts, const Hops& hops,
                                 std::uint32_t target) const {
  Spread paths = spread(bundled_fabric_, starts, hops, {});
  Trunk result{.bundles = std::move(paths.route)};
  for (RouteHop& hop : result.bundles) {
    const std::size_t links = bundle(hop.link).size();
    if (links == 0) continue;
    hop.fraction /= static_cast<double>(links);
    hop.alike = static_cast<std::uint32_t>(links);
  }
  result.arriving.reserve(targets_[target].size());
  for (const DeviceId device : targets_[target])
    result.arriving.push_back(paths.share[fabric_.place[device]]);
  return result;
}

void Cluster::append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const {
  for (const RouteHop& hop : trunk.bundles) {
    if (detail == RouteDetail::Bundles || hop.alike == 1) {
      route.push_back(hop);
    } else {
      for (const LinkId link : bundle(hop.link)) route.push_back({link, hop.fraction});
    }
  }
}

}  // namespace trainyard
