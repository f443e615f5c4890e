#include "sim/collectives/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// Members of a node by the NIC they send through; those nearest to it first.
std::map<DeviceId, std::vector<std::uint32_t>> members_of_nics(
    const GroupPlace& place, const std::vector<std::uint32_t>& roles, std::uint32_t elsewhere) {
  std::map<DeviceId, std::vector<std::uint32_t>> members;
  for (std::uint32_t position = 0; position < roles.size(); ++position)
    members[place.cluster.nic_of_gpu()[place.gpus[roles[position]]]].push_back(position);
  const auto hops = [&](std::uint32_t position) {
    return place.cluster.router().route(place.gpus[roles[position]], elsewhere).size();
  };
  for (auto& [nic, positions] : members)
    if (positions.size() > 1) std::ranges::stable_sort(positions, {}, hops);
  return members;
}

bool fewer_members(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return a.size() < b.size();
}

}  // namespace

std::size_t Placement::smallest() const {
  return std::min_element(nodes.begin(), nodes.end(), fewer_members)->size();
}

std::size_t Placement::largest() const {
  return std::max_element(nodes.begin(), nodes.end(), fewer_members)->size();
}

Placement placement_of(const GroupPlace& place) {
  TY_CHECK(!place.gpus.empty());
  // GPUs are numbered node by node.
  std::vector<std::uint32_t> roles(place.gpus.size());
  std::iota(roles.begin(), roles.end(), 0U);
  const auto gpu_of = [&](std::uint32_t role) { return place.gpus[role]; };
  if (!std::ranges::is_sorted(roles, {}, gpu_of)) std::ranges::stable_sort(roles, {}, gpu_of);
  const std::size_t members =
      std::min<std::size_t>(roles.size(), place.cluster.facts().gpus_per_node);
  Placement placement;
  std::optional<std::uint32_t> last;
  for (const std::uint32_t role : roles) {
    const std::uint32_t node = place.cluster.node_of(place.gpus[role]);
    if (node != last) placement.nodes.emplace_back().reserve(members);
    placement.nodes.back().push_back(role);
    last = node;
  }
  return placement;
}

std::vector<std::uint32_t> rails_of(const GroupPlace& place, const Placement& placement) {
  std::vector<std::uint32_t> all(placement.smallest());
  std::iota(all.begin(), all.end(), 0U);
  if (placement.nodes.size() == 1 || place.cluster.nic_of_gpu().empty()) return all;
  std::size_t most = 1;  // members that share a NIC, with all rails and with those that are kept
  std::size_t kept_most = 1;
  std::vector<std::uint32_t> kept = all;
  for (std::size_t node = 0; node < placement.nodes.size(); ++node) {
    const std::size_t other = node == 0 ? 1 : 0;
    const auto nics =
        members_of_nics(place, placement.nodes[node], place.gpus[placement.nodes[other].front()]);
    const auto fewer = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto [least, greatest] = std::ranges::minmax_element(nics, fewer);
    most = std::max(most, greatest->second.size());
    const std::size_t each = least->second.size();
    kept_most = std::max(kept_most, each);
    for (const auto& [nic, positions] : nics)
      for (std::size_t i = each; i < positions.size(); ++i) std::erase(kept, positions[i]);
  }
  return kept.size() * most > all.size() * kept_most ? kept : all;
}

bool crosses_nodes(const GroupPlace& place, std::uint32_t from_role, std::uint32_t to_role) {
  return place.cluster.node_of(place.gpus[from_role]) != place.cluster.node_of(place.gpus[to_role]);
}

std::string describe(std::span<const std::uint32_t> gpus) {
  constexpr std::size_t kShown = 8;
  if (gpus.size() <= kShown)
    return fmt::format("{} ranks on GPUs {}", gpus.size(), fmt::join(gpus, ", "));
  return fmt::format("{} ranks on GPUs {}, ..., {}", gpus.size(),
                     fmt::join(gpus.first(kShown - 1), ", "), gpus.back());
}

}  // namespace trainyard
