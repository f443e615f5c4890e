// The levels of a group: the ranks of a node, the nodes of a switch unit, the units of a pod, and
// the remaining units. On a torus, the dimensions are the levels.
//
// levels_of() derives the levels from the cluster. The innermost level is the node. Nodes whose
// NICs connect to the same switches form a unit (the nodes of a leaf, of a rail group, or of a pod
// of leaves). Units whose switches connect to the same switches one tier above form a unit of the
// next level, and so on upwards. The last level joins what remains. Neighbouring routers of one
// tier (a dragonfly group) also form a unit. On a torus (ClusterFacts::torus of nodes, node_torus
// of GPUs) each dimension is a level: the nodes along the first dimension, the lines of a plane,
// the planes. levels_of() leaves out a level that joins nothing, and a level whose units do not all
// contain the same number of the group's ranks in equal parts.
//
//    Levels levels = levels_of(placed, LevelsOf::All);
//    levels.sizes;            // {8, 4, 2}: 8 ranks a node, 4 nodes a leaf, 2 leaves
//    levels.line(1, 0);       // the 4 group ranks on the line of level 1 at position 0
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

enum class LevelsOf : std::uint8_t {
  NodeAndRest,  // two levels: within the nodes, and each rail across all nodes
  All
};

// The network that joins the ranks of a line: a whole node, one dimension of a torus, or switches
// of the fabric.
enum class LevelKind : std::uint8_t { Node, Dimension, Fabric };

// The levels of one group. A position numbers the group's ranks level by level: it is a number with
// mixed radix `sizes`, whose lowest digit is the index at the innermost level. A line of a level is
// the set of positions that differ in the digit of that level only. REQUIRES (levels_of): the same
// number of ranks on every node.
struct Levels {
  std::vector<std::uint32_t> sizes;  // innermost first, each > 1; their product is the rank count
  std::vector<LevelKind> kinds;      // by level; Node at level 0 only
  std::vector<std::uint32_t> group_rank_at;  // group rank by position
  std::vector<std::uint32_t> at_group_rank;  // position by group rank

  // True if level 0 contains all ranks that the group has on a node.
  [[nodiscard]] bool within_node() const {
    return !kinds.empty() && kinds.front() == LevelKind::Node;
  }
  // Distance in position between neighbours of a level: the product of the sizes of the levels
  // below.
  [[nodiscard]] std::uint32_t stride(std::size_t level) const;
  // The group ranks of the line of this level through a position, in the order of the level's
  // digit.
  [[nodiscard]] std::vector<std::uint32_t> line(std::size_t level, std::uint32_t position) const;
  [[nodiscard]] std::uint32_t digit(std::size_t level, std::uint32_t position) const {
    return position / stride(level) % sizes[level];
  }
};

[[nodiscard]] Levels levels_of(const PlacedGroup& placed, LevelsOf which);

}  // namespace trainyard
