#include "sim/collectives/algorithms/binary_tree.hpp"

#include <bit>

namespace trainyard {

namespace {

TreeNode first_tree(std::uint32_t nodes, std::uint32_t node) {
  TreeNode entry;
  if (node == 0) {
    if (nodes > 1) entry.children[1] = std::bit_floor(nodes - 1);
    return entry;
  }
  const std::uint32_t bit = node & (~node + 1);  // the lowest set bit
  const std::uint32_t up = (node ^ bit) | (bit << 1);
  entry.parent = up < nodes ? up : node ^ bit;
  const std::uint32_t half = bit >> 1;
  if (half == 0) return entry;
  entry.children[0] = node - half;
  for (std::uint32_t step = half; step > 0; step >>= 1) {
    if (node + step < nodes) {
      entry.children[1] = node + step;
      break;
    }
  }
  return entry;
}

}  // namespace

TreeNode tree_node(const TreeShape& shape, std::uint32_t node) {
  if (!shape.mirrored) return first_tree(shape.nodes, node);
  const std::uint32_t n = shape.nodes;
  // The mirror image of itself, or the shift by one and back.
  const auto there = [n](std::uint32_t i) { return n % 2 == 0 ? n - 1 - i : (i + n - 1) % n; };
  const auto back = [n](std::uint32_t i) { return n % 2 == 0 ? n - 1 - i : (i + 1) % n; };
  TreeNode entry = first_tree(n, there(node));
  if (entry.parent) entry.parent = back(*entry.parent);
  for (auto& child : entry.children)
    if (child) child = back(*child);
  return entry;
}

}  // namespace trainyard
