#include "sim/collectives/node_members.hpp"

#include <algorithm>

namespace trainyard {

NodeMembers::NodeMembers(const GroupPlace& place, std::span<const std::uint32_t> roles)
    : cluster_(&place.cluster),
      node_(place.cluster.node_of(place.gpus[roles.front()])),
      in_order_(std::ranges::is_sorted(roles)) {
  locals_.reserve(roles.size());
  for (const std::uint32_t role : roles) locals_.push_back(cluster_->local_index(place.gpus[role]));
}

bool NodeMembers::is_like(const NodeMembers& other) const {
  const auto pattern = cluster_->wiring().pattern_of(node_);
  return pattern && pattern == cluster_->wiring().pattern_of(other.node_) && in_order_ &&
         other.in_order_ && locals_ == other.locals_;
}

bool NodeMembers::holds(std::span<const LinkLoad> loads) const {
  return std::ranges::all_of(loads, [&](const LinkLoad& load) {
    const Strand strand = cluster_->wiring().strand(load.link);
    const auto is_here = [&](DeviceId id) {
      return cluster_->device(id).node == static_cast<std::int32_t>(node_);
    };
    return load.alike == 1 && is_here(strand.from) && is_here(strand.to);
  });
}

// Devices of a pattern are numbered in a row, and the links within it come first of each device's.
void NodeMembers::append_moved(std::span<const LinkLoad> loads, const NodeMembers& other,
                               std::vector<LinkLoad>& all) const {
  const Wiring& wiring = cluster_->wiring();
  const std::uint32_t gpus = cluster_->facts().gpus_per_node;
  const DeviceId here = cluster_->gpus()[node_ * gpus];
  const DeviceId there = cluster_->gpus()[other.node_ * gpus];
  for (const LinkLoad& load : loads) {
    const DeviceId from = wiring.from(load.link);
    const std::uint32_t position = load.link - wiring.first_link_from(from);
    const LinkId like = wiring.first_link_from(from - here + there) + position;
    all.push_back({.link = like, .bytes = load.bytes, .alike = load.alike});
  }
}

}  // namespace trainyard
