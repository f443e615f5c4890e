// The arithmetic of tori, for nodes in a fabric and for GPUs in a node.
//
//    balanced_dims(64, 3);              // {4, 4, 4}
//    torus_wires(std::array{4U, 2U});   // 8 wires around the rings of four, 4 double ones across
//
// The position with coordinates x0, x1, x2, ... has number x0 + d0 * (x1 + d1 * (x2 + ...)): the
// first dimension varies fastest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

// A wire between two neighbours. In a dimension of two positions both neighbours are the same, and
// two wires lead to it: times is 2.
struct TorusWire {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t times = 1;
};

// Returns every wire once, by position and then by dimension; a dimension of one position has none.
[[nodiscard]] std::vector<TorusWire> torus_wires(std::span<const std::uint32_t> dims);

// Returns `count` factors whose product is `places`, largest first, with the least possible sum,
// which keeps paths short. REQUIRES: places > 0, count > 0.
[[nodiscard]] std::vector<std::uint32_t> balanced_dims(std::uint32_t places, std::uint32_t count);

// Returns the product of the dimensions.
[[nodiscard]] std::uint64_t torus_size(std::span<const std::uint32_t> dims);

}  // namespace trainyard
