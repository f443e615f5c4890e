// The levels of a group: ranks of a node, nodes of a switch unit, units of a pod, and the rest; on
// a torus, its dimensions.
//
// Levels are found in the cluster. Level 0 is the node. Nodes whose NICs enter the fabric at the
// same switches are a unit (the nodes of a leaf, of a rail group, of a pod of leaves); units whose
// switches lead to the same switches above are a unit of the next level, and so on up; what is left
// is the last level. Routers that are neighbours of one tier (a dragonfly group) are a unit as
// well. In a torus (ClusterFacts::torus of nodes, node_torus of GPUs) each dimension is a level:
// the nodes of a row, the rows of a plane, the planes. A level at which nothing is joined is left
// out, and so is one whose units do not all hold the same number of the group's ranks, in equal
// parts.
//
//   Levels levels = levels_of(place, LevelsOf::All);
//   levels.sizes;            // {8, 4, 2}: 8 ranks a node, 4 nodes a leaf, 2 leaves
//   levels.line(1, 0);       // the 4 group ranks that meet rank 0 of node 0 at level 1
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

enum class LevelsOf : std::uint8_t {
  NodeAndRest,  // two: within the nodes, and each rail across all nodes
  All
};

// The ranks of a line are joined by a whole node, a dimension of a torus, or switches of the
// fabric.
enum class LevelKind : std::uint8_t { Node, Dimension, Fabric };

// REQUIRES (levels_of): the same number of ranks on every node.
struct Levels {
  std::vector<std::uint32_t> sizes;  // innermost first, each > 1; their product is the ranks
  std::vector<LevelKind> kinds;      // by level; Node at level 0 only
  std::vector<std::uint32_t> group_rank_at;  // by position: digits of base sizes, innermost lowest
  std::vector<std::uint32_t> at_group_rank;  // the position of a group rank

  // Is level 0 all that a node has of the group?
  [[nodiscard]] bool within_node() const {
    return !kinds.empty() && kinds.front() == LevelKind::Node;
  }
  // How far apart neighbours of a level stand in position: the product of the levels below.
  [[nodiscard]] std::uint32_t stride(std::size_t level) const;
  // The group ranks that differ from this position in the digit of the level alone, in its order.
  [[nodiscard]] std::vector<std::uint32_t> line(std::size_t level, std::uint32_t position) const;
  [[nodiscard]] std::uint32_t digit(std::size_t level, std::uint32_t position) const {
    return position / stride(level) % sizes[level];
  }
};

[[nodiscard]] Levels levels_of(const GroupPlace& place, LevelsOf which);

}  // namespace trainyard
