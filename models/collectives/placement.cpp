#include "models/collectives/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

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
