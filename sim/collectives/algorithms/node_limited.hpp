// How many nodes or GPUs the experts of one token lie on.
//
//   distinct_units({.picks = 8, .experts = 256, .reached = 4, .groups = 8}, 8);   // 3.625
#pragma once

#include <cstdint>

namespace trainyard {

// A token goes to `picks` different experts out of `experts`, alike for all, which stand in equal
// `groups` of which it reaches `reached`.
struct TokenChoice {
  std::int64_t picks = 1;
  std::int64_t experts = 1;
  std::int64_t reached = 1;
  std::int64_t groups = 1;
};

// The mean number of units that hold one of the token's experts, where the experts are dealt to
// `units` equal units in order. With one group of all: units (1 - C(E - E/units, K) / C(E, K)).
// Where neither groups nor units divide the other, groups do not count.
[[nodiscard]] double distinct_units(const TokenChoice& choice, std::int64_t units);

}  // namespace trainyard
