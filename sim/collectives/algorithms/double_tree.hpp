// NCCL's double binary tree over N nodes: each node is an inner node in at most one of the two
// trees (N even).
//
// Tree 1: the parent of node r > 0 with lowest set bit b is (r xor b) | 2b, or r xor b if the
// former is not below N. Node 0 is the root. Tree 2 is the mirror image of tree 1 (N even), or tree
// 1 shifted by one (N odd). Reference: NVIDIA/nccl src/graph/trees.cc (ncclGetBtree, ncclGetDtree),
// described in Sanders, Speck and Traeff 2009.
//
//    TreeNode n = tree_node({.nodes = 8, .mirrored = false}, 6);   // parent 4, children 5 and 7
//    const std::vector<MultiLinkFlow> flows = double_tree_flows(placed, Bytes{4.0});
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

struct TreeShape {
  std::uint32_t nodes = 1;
  bool mirrored = false;  // true: tree 2
};

struct TreeNode {
  std::optional<std::uint32_t> parent;
  std::array<std::optional<std::uint32_t>, 2> children;
};

// REQUIRES: node < shape.nodes.
[[nodiscard]] TreeNode tree_node(const TreeShape& shape, std::uint32_t node);

// The flows of an all_reduce over both trees; `bytes` is the size of each member's buffer.
[[nodiscard]] std::vector<MultiLinkFlow> double_tree_flows(const PlacedGroup& placed, Bytes bytes);

}  // namespace trainyard
