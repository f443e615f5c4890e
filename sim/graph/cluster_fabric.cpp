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

// Found once for all NICs of a leaf; valid until the next is asked for.
const Cluster::Trunk& Cluster::trunk(const Arc& start, std::uint32_t target) const {
  const std::uint64_t key = (std::uint64_t{start.place} << 32U) | target;
  if (const auto known = trunks_.find(key); known != trunks_.end()) return known->second;
  const Hops here = searched(target);
  const Hops& hops = distances(target, here);
  TY_CHECK(hops[start.place] != kUnreachable, start.device, target);
  const Arc at_switch{.device = start.device, .place = start.place};
  Trunk found = trunk_of(spread(fabric_, std::span(&at_switch, 1), hops, {}), target);
  if (trunk_hops_ + found.route.size() > kTrunkHopsMost) {
    trunks_.clear();
    trunk_hops_ = 0;
  }
  trunk_hops_ += found.route.size() + found.bundles.size();
  return trunks_.emplace(key, std::move(found)).first->second;
}

Cluster::Trunk Cluster::trunk_of(Spread paths, std::uint32_t target) const {
  Trunk result{.route = std::move(paths.route)};
  result.bundles = by_bundles(result.route);
  result.arriving.reserve(targets_[target].size());
  for (const DeviceId device : targets_[target])
    result.arriving.push_back(paths.share[fabric_.place[device]]);
  return result;
}

// A bundle that is not loaded in all its links alike stays in single links.
Route Cluster::by_bundles(const Route& route) const {
  struct Met {
    LinkId lowest = 0;
    double fraction = 0.0;
    std::uint32_t links = 0;
    bool alike = true;
  };
  std::vector<Met> met;
  const auto find = [&](LinkId lowest) {
    // A walk meets the links of a bundle in one ring: the last one met is near the end.
    return std::find_if(met.rbegin(), met.rend(),
                        [&](const Met& other) { return other.lowest == lowest; });
  };
  for (const RouteHop& hop : route) {
    const LinkId lowest = bundle_of_[hop.link];
    const auto known = find(lowest);
    if (known == met.rend()) {
      met.push_back({.lowest = lowest, .fraction = hop.fraction, .links = 1});
    } else {
      known->alike = known->alike && known->fraction == hop.fraction;
      ++known->links;
    }
  }
  Route result;
  for (const Met& bundle : met)
    if (bundle.alike &&
        bundle.links == std::max<std::size_t>(1, this->bundle(bundle.lowest).size()))
      result.push_back({bundle.lowest, bundle.fraction, bundle.links});
  const auto told = result.size();
  if (told == met.size()) return result;
  for (const RouteHop& hop : route) {
    const auto whole =
        std::find_if(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(told),
                     [&](const RouteHop& other) { return other.link == bundle_of_[hop.link]; });
    if (whole == result.begin() + static_cast<std::ptrdiff_t>(told)) result.push_back(hop);
  }
  return result;
}

}  // namespace trainyard
