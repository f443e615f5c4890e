#include "models/collectives/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_node;
  for (std::uint32_t role = 0; role < place.gpus.size(); ++role)
    by_node[place.cluster.node_of(place.gpus[role])].push_back(role);
  Placement placement;
  placement.nodes.reserve(by_node.size());
  for (auto& [node, roles] : by_node) {
    std::stable_sort(roles.begin(), roles.end(), [&](std::uint32_t a, std::uint32_t b) {
      return place.gpus[a] < place.gpus[b];
    });
    placement.nodes.push_back(std::move(roles));
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
