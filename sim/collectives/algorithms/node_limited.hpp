// Constants and formulas of the all_to_all between nodes for expert parallelism: on how many nodes
// or GPUs the experts of one token are, and how fast DeepEP's kernels move tokens.
//
//    distinct_units({.picks = 8, .experts = 256, .reached = 4, .groups = 8}, 8);   // 3.629
//
// The SMs of DeepEP's kernels copy token by token, which is slower than NVLink:
//
//    T = start + max(bytes a GPU forwards within its node / (SMs * rate), NIC, NVLink)
//
//    const ExchangePace pace = exchange_pace(exchange_constants(kDeepEp), 1);
//    pace.start;   // 50.7 us from the call to the first tokens, including the exchange of counts
//    pace.rate;    // 295 GB/s: 20 SMs of 14.75 GB/s each
//
// The constants of DeepEP are fitted to its normal kernels on H100 and B200, on one to four nodes,
// those of HybridEP to its calls on GB200 and on two nodes of H100, by fit_deepep
// (deepep/data, with the errors). See tests/sim/collectives/node_limited_test.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"

namespace trainyard {

// The routing of a token: it selects `picks` distinct experts out of `experts` with equal
// probability. The experts are in `groups` groups of equal size, and a token reaches `reached` of
// them.
struct TokenChoice {
  std::int64_t picks = 1;
  std::int64_t experts = 1;
  std::int64_t reached = 1;
  std::int64_t groups = 1;
};

// The expected number of units that hold at least one of the token's experts, if the experts are
// assigned to `units` equal units in order. With a single group: units (1 - C(E - E/units, K) /
// C(E, K)). If neither the number of groups nor that of units divides the other, the groups are
// ignored.
[[nodiscard]] double distinct_units(const TokenChoice& choice, std::int64_t units);

// The constants for groups within one node (in_node) and for groups on several nodes (across).
struct ExchangeConstants {
  struct Reach {
    Seconds start{0.0};
    BytesPerSecond rate_per_sm{0.0};
  };
  std::int64_t sms = 0;
  Reach in_node{};
  Reach across{};
  // Share of its speed that computation loses while the kernels run. GEMMs and attention start one
  // block for each SM of the GPU; the blocks of the SMs that are held run after all others.
  double compute_loss = 0.0;
};

struct ExchangePace {
  Seconds start{0.0};
  BytesPerSecond rate{0.0};
};

// The libraries whose kernels were measured: files of deepep/data.
inline constexpr const char* kDeepEp = "deep_ep";
inline constexpr const char* kHybridEp = "hybrid_ep";

// The library whose kernels an algorithm stands for ("hybrid_ep:8-256-1-1"); null for all others.
[[nodiscard]] const ExchangeConstants* exchange_library_of(std::string_view algorithm);

// Reads the constants of a library on the first call and caches them. Throws InputError.
[[nodiscard]] const ExchangeConstants& exchange_constants(const std::string& library);
[[nodiscard]] ExchangePace exchange_pace(const ExchangeConstants& constants, std::int64_t nodes);

}  // namespace trainyard
