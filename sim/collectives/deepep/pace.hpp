// How fast DeepEP's kernels move tokens: its SMs copy row by row, which is slower than NVLink.
//
//   T = start + max(bytes a GPU hands on inside its node / (SMs * rate), NIC and NVLink as they
//   are)
//
//   const ExchangePace pace = exchange_pace(exchange_constants(), 1);
//   pace.start;   // 50.7 us from the call to the first rows, with the exchange of counts
//   pace.rate;    // 295 GB/s: 20 SMs of 14.75 GB/s each
//
// The constants are fitted to DeepEP's normal kernels on H100 and B200, one to four nodes, by
// fit_deepep (data/pace.json, with its errors); tests/sim/collectives/node_limited_test.cpp.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"

namespace trainyard {

// Of groups inside one node, or on several.
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
