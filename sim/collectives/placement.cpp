#include "sim/collectives/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// By NIC, the members of a node that send through it, as positions in `group_ranks`. Members with
// the fewest hops to the NIC come first. `elsewhere` is a GPU on another node; the number of hops
// to it ranks the members.
std::map<DeviceId, std::vector<std::uint32_t>> members_of_nics(
    const PlacedGroup& placed, const std::vector<std::uint32_t>& group_ranks,
    std::uint32_t elsewhere) {
  std::map<DeviceId, std::vector<std::uint32_t>> members;
  for (std::uint32_t position = 0; position < group_ranks.size(); ++position)
    members[placed.cluster.nic_of_gpu()[placed.gpus[group_ranks[position]]]].push_back(position);
  const auto hops = [&](std::uint32_t position) {
    return placed.cluster.router().route(placed.gpus[group_ranks[position]], elsewhere).size();
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

std::optional<std::string> Placement::uneven(std::string_view algorithm) const {
  if (even()) return {};
  return fmt::format("{} needs the same number of ranks on every node, here {} to {}", algorithm,
                     smallest(), largest());
}

Placement placement_of(const PlacedGroup& placed) {
  TY_CHECK(!placed.gpus.empty());
  // GPUs are numbered node by node.
  std::vector<std::uint32_t> group_ranks(placed.gpus.size());
  std::iota(group_ranks.begin(), group_ranks.end(), 0U);
  const auto gpu_of = [&](std::uint32_t group_rank) { return placed.gpus[group_rank]; };
  if (!std::ranges::is_sorted(group_ranks, {}, gpu_of))
    std::ranges::stable_sort(group_ranks, {}, gpu_of);
  const std::size_t members =
      std::min<std::size_t>(group_ranks.size(), placed.cluster.facts().gpus_per_node);
  Placement placement;
  std::optional<std::uint32_t> last;
  for (const std::uint32_t group_rank : group_ranks) {
    const std::uint32_t node = placed.cluster.node_of(placed.gpus[group_rank]);
    if (node != last) placement.nodes.emplace_back().reserve(members);
    placement.nodes.back().push_back(group_rank);
    last = node;
  }
  return placement;
}

// If a NIC is dead, the router gives its GPU the NIC of a neighbour. Example: 8 rails of which two
// share one NIC. With all 8 rails the shared NIC halves the rate of each (8 / 2 = 4 NICs of
// traffic), so the 7 rails without the borrower are faster (7 / 1).
std::vector<std::uint32_t> rails_of(const PlacedGroup& placed, const Placement& placement) {
  std::vector<std::uint32_t> all(placement.smallest());
  std::iota(all.begin(), all.end(), 0U);
  if (placement.nodes.size() == 1 || placed.cluster.nic_of_gpu().empty()) return all;
  if (placement.largest() == 1) return all;  // no two members share a NIC
  std::size_t most = 1;                      // members that share one NIC, with all rails
  std::size_t kept_most = 1;                 // the same with the kept rails
  std::vector<std::uint32_t> kept = all;
  for (std::size_t node = 0; node < placement.nodes.size(); ++node) {
    const std::size_t other = node == 0 ? 1 : 0;
    const auto nics =
        members_of_nics(placed, placement.nodes[node], placed.gpus[placement.nodes[other].front()]);
    const auto fewer = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto [least, greatest] = std::ranges::minmax_element(nics, fewer);
    most = std::max(most, greatest->second.size());
    // Every NIC of the node keeps as many members as its least used NIC has; the others are left
    // out.
    const std::size_t each = least->second.size();
    kept_most = std::max(kept_most, each);
    for (const auto& [nic, positions] : nics)
      for (std::size_t i = each; i < positions.size(); ++i) std::erase(kept, positions[i]);
  }
  // The rate of a rail is that of a NIC divided by the members that share it, so compare rails /
  // sharers.
  return kept.size() * most > all.size() * kept_most ? kept : all;
}

bool crosses_nodes(const PlacedGroup& placed, std::uint32_t from_group_rank,
                   std::uint32_t to_group_rank) {
  return placed.cluster.node_of(placed.gpus[from_group_rank]) !=
         placed.cluster.node_of(placed.gpus[to_group_rank]);
}

std::string describe(std::span<const std::uint32_t> gpus) {
  constexpr std::size_t kShown = 8;
  if (gpus.size() <= kShown)
    return fmt::format("{} ranks on GPUs {}", gpus.size(), fmt::join(gpus, ", "));
  return fmt::format("{} ranks on GPUs {}, ..., {}", gpus.size(),
                     fmt::join(gpus.first(kShown - 1), ", "), gpus.back());
}

NodeMembers::NodeMembers(const PlacedGroup& placed, std::span<const std::uint32_t> group_ranks)
    : cluster_(&placed.cluster),
      node_(placed.cluster.node_of(placed.gpus[group_ranks.front()])),
      in_order_(std::ranges::is_sorted(group_ranks)) {
  locals_.reserve(group_ranks.size());
  for (const std::uint32_t group_rank : group_ranks)
    locals_.push_back(cluster_->local_index(placed.gpus[group_rank]));
}

bool NodeMembers::is_like(const NodeMembers& other) const {
  const auto pattern = cluster_->wiring().pattern_of(node_);
  return pattern && pattern == cluster_->wiring().pattern_of(other.node_) && in_order_ &&
         other.in_order_ && locals_ == other.locals_;
}

bool NodeMembers::holds(std::span<const LinkLoad> loads) const {
  return std::ranges::all_of(loads, [&](const LinkLoad& load) {
    const LinkEnds strand = cluster_->wiring().strand(load.link);
    const auto is_here = [&](DeviceId id) {
      return cluster_->device(id).node == static_cast<std::int32_t>(node_);
    };
    return load.parallel_count == 1 && is_here(strand.from) && is_here(strand.to);
  });
}

// Devices of a pattern have consecutive numbers, and the links within it are the first links of
// each device. A link therefore keeps its index among the links of its device, and the device keeps
// its distance from the first GPU of the node.
void NodeMembers::append_moved(std::span<const LinkLoad> loads, const NodeMembers& other,
                               std::vector<LinkLoad>& all) const {
  const Wiring& wiring = cluster_->wiring();
  const std::size_t gpus = cluster_->facts().gpus_per_node;
  const DeviceId here = cluster_->gpus()[node_ * gpus];
  const DeviceId there = cluster_->gpus()[other.node_ * gpus];
  for (const LinkLoad& load : loads) {
    const DeviceId from = wiring.from(load.link);
    const std::uint32_t position = load.link - wiring.first_link_from(from);
    const LinkId like = wiring.first_link_from(there + (from - here)) + position;
    all.push_back({.link = like, .bytes = load.bytes, .parallel_count = load.parallel_count});
  }
}

}  // namespace trainyard
