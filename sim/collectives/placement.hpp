// Where the members of a group stand: by node, in the order of the GPUs within it; and how members
// on one node tell what others in the same places of another node put on its links.
//
//   Placement placement = placement_of(place);
//   placement.nodes[0];       // group ranks on the first node, by local index
//   placement.smallest();     // members on the node that has the fewest
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
  std::vector<std::vector<std::uint32_t>> nodes;  // group ranks; nodes by number, members by GPU

  [[nodiscard]] std::size_t smallest() const;
  [[nodiscard]] std::size_t largest() const;
  [[nodiscard]] bool even() const { return smallest() == largest(); }
  // "hierarchical needs the same number of ranks on every node, here 1 to 8"; nothing where they
  // are even.
  [[nodiscard]] std::optional<std::string> uneven(std::string_view algorithm) const;
};

[[nodiscard]] Placement placement_of(const GroupPlace& place);

// Rails on which channels enter and leave nodes, as positions among a node's members: one for each
// member of the node that has the fewest. Where a NIC stands in for a dead one, channels of all the
// members would meet at it; the members it was lent to are left out, on every node alike, as long
// as the channels that remain are quicker.
[[nodiscard]] std::vector<std::uint32_t> rails_of(const GroupPlace& place,
                                                  const Placement& placement);

// Do two members stand on different nodes?
[[nodiscard]] bool crosses_nodes(const GroupPlace& place, std::uint32_t from_group_rank,
                                 std::uint32_t to_group_rank);

// "8 ranks on GPUs 0, 1, 2, 3, ..., 15", for messages to users.
[[nodiscard]] std::string describe(std::span<const std::uint32_t> gpus);

// The members of a group on one node.
//
// Nodes stamped from one pattern have the same devices in a row and the same links between them
// (sim/cluster/wiring.hpp), so what goes on between members in the same places is the same but for
// where the links begin: 16 384 nodes are asked for their ways once.
//
//   const NodeMembers first(place, placement.nodes[0]);
//   const NodeMembers other(place, placement.nodes[1]);
//   if (first.holds(loads) && first.is_like(other)) first.append_moved(loads, other, all);
class NodeMembers {
 public:
  // `group ranks` are of one node. REQUIRES: the cluster outlives it; group ranks is not empty.
  NodeMembers(const GroupPlace& place, std::span<const std::uint32_t> group_ranks);

  // Do the members of both stand in the same places of nodes of one pattern, in the same order of
  // group ranks?
  [[nodiscard]] bool is_like(const NodeMembers& other) const;

  // Do all loads stand on links within the node?
  [[nodiscard]] bool holds(std::span<const LinkLoad> loads) const;

  // Appends `loads`, which messages among these members make, as the same messages among the others
  // make them. REQUIRES: holds(loads); `other` is like this one.
  void append_moved(std::span<const LinkLoad> loads, const NodeMembers& other,
                    std::vector<LinkLoad>& all) const;

 private:
  const Cluster* cluster_;
  std::uint32_t node_ = 0;
  std::vector<std::uint32_t> locals_;  // by group rank, ascending
  bool in_order_ = true;               // group ranks ascend
};

}  // namespace trainyard
