// Placement of the members of a group on nodes, in the order of the GPUs within each node. It also
// reuses link loads: members with the same local indices on nodes of one pattern load their links
// in the same way.
//
//    Placement placement = placement_of(placed);
//    placement.nodes[0];       // group ranks on the first node, by local index
//    placement.smallest();     // number of members on the node that has the fewest
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

struct Placement {
  std::vector<std::vector<std::uint32_t>> nodes;  // group ranks by node number, then by GPU

  [[nodiscard]] std::size_t smallest() const;
  [[nodiscard]] std::size_t largest() const;
  [[nodiscard]] bool even() const { return smallest() == largest(); }
  // "hierarchical needs the same number of ranks on every node, here 1 to 8", or nothing if all
  // nodes have the same number.
  [[nodiscard]] std::optional<std::string> uneven(std::string_view algorithm) const;
};

[[nodiscard]] Placement placement_of(const PlacedGroup& placed);

// Rails on which channels enter and leave nodes, as indices among the members of a node: one for
// each member of the node that has the fewest. If a NIC replaces a dead one, the channels of
// several members would share it. The members that borrow a NIC are then left out on every node, as
// long as the remaining channels are faster.
[[nodiscard]] std::vector<std::uint32_t> rails_of(const PlacedGroup& placed,
                                                  const Placement& placement);

// True if two members are on different nodes.
[[nodiscard]] bool crosses_nodes(const PlacedGroup& placed, std::uint32_t from_group_rank,
                                 std::uint32_t to_group_rank);

// "8 ranks on GPUs 0, 1, 2, 3, ..., 15", for messages to users.
[[nodiscard]] std::string describe(std::span<const std::uint32_t> gpus);

// The members of a group on one node.
//
// All nodes built from one pattern have consecutive devices in the same order and the same links
// between them (sim/cluster/wiring.hpp). Messages between members with the same local indices
// therefore load the same links up to an offset of the link numbers. The routes of 16 384 nodes are
// searched once.
//
//    const NodeMembers first(placed, placement.nodes[0]);
//    const NodeMembers other(placed, placement.nodes[1]);
//    if (first.holds(loads) && first.is_like(other)) first.append_moved(loads, other, all);
class NodeMembers {
 public:
  // The group ranks are of one node. REQUIRES: the cluster outlives this object; `group_ranks` is
  // not empty.
  NodeMembers(const PlacedGroup& placed, std::span<const std::uint32_t> group_ranks);

  // True if both nodes have the same pattern and both sets of members have the same local indices,
  // in ascending order of group rank.
  [[nodiscard]] bool is_like(const NodeMembers& other) const;

  // True if all loads are on single links within the node.
  [[nodiscard]] bool holds(std::span<const LinkLoad> loads) const;

  // `loads` are the loads of messages among these members. Appends the loads of the same messages
  // among the members of `other`. REQUIRES: holds(loads); is_like(other).
  void append_moved(std::span<const LinkLoad> loads, const NodeMembers& other,
                    std::vector<LinkLoad>& all) const;

 private:
  const Cluster* cluster_;
  std::uint32_t node_ = 0;
  std::vector<std::uint32_t> locals_;  // local indices, by group rank
  bool in_order_ = true;               // the group ranks ascend
};

}  // namespace trainyard
