// Weights as whole numbers, because a SimGrid route can only list a link once, twice, ... n times.
//
// Flow i puts weight w_i on a link, in its payloads. With a unit u and whole numbers n_i = w_i / u,
// a link of capacity C / u listed n_i times in the route of flow i shares exactly as the weighted
// link does:
//
//     sum of w_i x_i <= C    <=>    sum of n_i x_i <= C / u
//
// Worked: weights 1 and 3/4 on 100 GB/s: u = 1/4, listed 4 and 3 times, capacity 400 GB/s.
// Where the weights have no common unit that keeps the lists short, each is rounded up to a
// multiple of 1/32 of the flow's payload per chain, as design D4 lays down, and counted: at most
// 1/32 of the most loaded link too much. Held by tests/sim/engine/weights_test.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/link_sets.hpp"

namespace trainyard {

struct WholeWeights {
  double unit = 1.0;
  std::vector<std::uint32_t> counts;  // by user, in the order given; 1..1024
  std::uint32_t rounded = 0;          // users whose weight is not exactly count * unit
};

// REQUIRES: at least one user; positive weights.
[[nodiscard]] WholeWeights whole_weights(std::span<const LinkSet::User> users);

}  // namespace trainyard
