// The members of a group on one node, and how what they put on its links is told by those of
// another node.
//
// Nodes stamped from one pattern have the same devices in a row and the same links between them
// (sim/cluster/wiring.hpp), so what goes on between members in the same places is the same but for
// where the links begin: 16 384 nodes are asked for their ways once.
//
//   const NodeMembers first(place, placement.nodes[0]);
//   const NodeMembers other(place, placement.nodes[1]);
//   if (first.holds(loads) && first.is_like(other)) first.append_moved(loads, other, all);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

class NodeMembers {
 public:
  // `roles` are of one node. REQUIRES: the cluster outlives it; roles is not empty.
  NodeMembers(const GroupPlace& place, std::span<const std::uint32_t> roles);

  // Do both stand in the same places of nodes of one pattern, in the same order of roles?
  [[nodiscard]] bool is_like(const NodeMembers& other) const;

  // Are all on links within the node?
  [[nodiscard]] bool holds(std::span<const LinkLoad> loads) const;

  // Appends `loads`, which messages among these members make, as the same messages among the others
  // make them. REQUIRES: holds(loads); `other` is like this one.
  void append_moved(std::span<const LinkLoad> loads, const NodeMembers& other,
                    std::vector<LinkLoad>& all) const;

 private:
  const Cluster* cluster_;
  std::uint32_t node_ = 0;
  std::vector<std::uint32_t> locals_;  // by role, ascending
  bool in_order_ = true;               // roles ascend
};

}  // namespace trainyard
