// What the double binary tree (tree_all_reduce.cpp) puts on links, for those who know its latency.
//
//   const std::vector<Chain> chains = double_tree_chains(place, Bytes{4.0});
#pragma once

#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// The chains of its phases for so many bytes of each member.
[[nodiscard]] std::vector<Chain> double_tree_chains(const GroupPlace& place, Bytes bytes);

}  // namespace trainyard
