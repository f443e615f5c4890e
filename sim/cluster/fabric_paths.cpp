#include "sim/cluster/fabric_paths.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// Entries of the distance table of the fabric: 64 Mi of two bytes. 65 536 endpoints of a
// three-level fat-tree need 10 Mi.
constexpr std::size_t kTableMost = std::size_t{1} << 26U;

}  // namespace

FabricPaths::FabricPaths(const Topology& topology, const LinkBundles& bundles)
    : bundles_(bundles), fabric_(topology, bundles), ports_(topology, fabric_) {
  if (ports_.targets().size() * fabric_.places() <= kTableMost) tabulate();
}

// Switches that are wired to the same others are at the same distance from each of these: one
// search serves all leaves of a pod. Swapping two of them leaves the fabric as it is, so the row of
// one is that of the other with their own two entries swapped.
void FabricPaths::tabulate() {
  row_of_target_.reserve(ports_.targets().size());
  std::map<std::vector<std::uint32_t>, Row> wired_so;  // rows of the first
  for (const std::vector<std::uint32_t>& switches : ports_.targets()) {
    const auto next = static_cast<std::uint32_t>(rows_.size());
    Row row{.row = next, .target = switches.front(), .like = switches.front()};
    if (switches.size() == 1) {
      const Row first = wired_so.try_emplace(wiring_at(row.target), row).first->second;
      row.row = first.row;
      row.like = first.target;
    }
    row_of_target_.push_back(row);
    if (row.row == next) rows_.push_back(search(fabric_.net(), fabric_.net().in, switches));
  }
}

// All that a search sees of a switch: whom it reaches and who reaches it, in what length.
std::vector<std::uint32_t> FabricPaths::wiring_at(std::uint32_t place) const {
  const auto ends = [&](std::span<const Arc> arcs) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
    for (const Arc& arc : arcs) result.emplace_back(arc.place, arc.length);
    std::ranges::sort(result);
    const auto doubled = std::ranges::unique(result);
    result.erase(doubled.begin(), doubled.end());
    return result;
  };
  std::vector<std::uint32_t> wiring;
  for (const Adjacency* side : {&fabric_.net().out, &fabric_.net().in}) {
    const auto others = ends(side->of(place));
    wiring.push_back(static_cast<std::uint32_t>(others.size()));
    for (const auto& [other, length] : others) wiring.insert(wiring.end(), {other, length});
  }
  return wiring;
}

Distances FabricPaths::distances(std::uint32_t target) const {
  if (!has_table()) return search(fabric_.net(), fabric_.net().in, ports_.targets()[target]);
  const Row& row = row_of_target_[target];
  return {rows_[row.row], row.target, row.like};
}

std::vector<Arc> FabricPaths::nearest_starts(std::uint32_t gpu, const Distances& hops) const {
  std::uint16_t nearest = kUnreachable;
  for (const Arc& arc : ports_.up(gpu)) nearest = std::min(nearest, hops[arc.place]);
  TY_CHECK(nearest != kUnreachable);
  std::vector<Arc> starts;
  for (const Arc& arc : ports_.up(gpu))
    if (hops[arc.place] == nearest) starts.push_back(arc);
  return starts;
}

// Where routing is ideal switches wired alike pass on alike, so one walk over bundles tells what
// each of their links carries.
Trunk FabricPaths::trunk(std::span<const Arc> starts, const Distances& hops,
                         std::uint32_t target) const {
  Spread paths = spread(fabric_.net(), starts, hops);
  Trunk result{.bundles = std::move(paths.route)};
  for (RouteHop& hop : result.bundles) {
    const std::size_t links = bundles_.links(hop.link).size();
    if (links == 0) continue;
    hop.fraction /= static_cast<double>(links);
    hop.alike = static_cast<std::uint32_t>(links);
  }
  result.arriving.reserve(ports_.targets()[target].size());
  for (const std::uint32_t place : ports_.targets()[target])
    result.arriving.push_back(paths.share[place]);
  return result;
}

}  // namespace trainyard
