// The facts behind the exchange of tokens between nodes: how many nodes or GPUs the experts of one
// token lie on, and how fast DeepEP's kernels move tokens.
//
//   distinct_units({.picks = 8, .experts = 256, .reached = 4, .groups = 8}, 8);   // 3.625
//
// The SMs of DeepEP's kernels copy row by row, which is slower than NVLink:
//
//   T = start + max(bytes a GPU hands on inside its node / (SMs * rate), NIC, NVLink)
//
//   const ExchangePace pace = exchange_pace(exchange_constants(), 1);
//   pace.start;   // 50.7 us from the call to the first rows, with the exchange of counts
//   pace.rate;    // 295 GB/s: 20 SMs of 14.75 GB/s each
//
// The constants are fitted to DeepEP's normal kernels on H100 and B200, one to four nodes, by
// fit_deepep (deepep/data/pace.json, with its errors); tests/sim/collectives/node_limited_test.cpp.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"

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

// The constants for groups inside one node and for groups on several.
struct ExchangeConstants {
  struct Reach {
    Seconds start{0.0};
    BytesPerSecond rate_per_sm{0.0};
  };
  std::int64_t sms = 0;
  Reach in_node{};
  Reach across{};
};

struct ExchangePace {
  Seconds start{0.0};
  BytesPerSecond rate{0.0};
};

// Read once. Throws InputError.
[[nodiscard]] const ExchangeConstants& exchange_constants();
[[nodiscard]] ExchangePace exchange_pace(const ExchangeConstants& constants, std::int64_t nodes);

}  // namespace trainyard
