// Pipelined chains: the buffer in chunks along a ring that is cut at the root.
//
//   T = (n-2+C)(alpha + S/(CB))          C chunks of S bytes, n ranks
//
// n = 8, S = 2^30, B = 100 GB/s, alpha = 5 us: C = 64 12 094.051200 us; the best C is
// sqrt(S(n-2)/(alpha B)) = 113.5 (tests/sim/collectives/exchange_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/message_list.hpp"

namespace trainyard {

struct ChainPlan {
  std::uint32_t chunks = 64;           // per ring
  std::uint32_t pieces_per_chunk = 1;  // how fine pieces() cuts beyond the chunks
  bool reduce = false;                 // towards the root (role 0), adding up; else away from it
};
// The plan of the registered algorithms: chunks_of (pipeline.hpp) the buffer.
[[nodiscard]] ChainPlan chain_plan(const GroupPlace& place, Bytes bytes, bool reduce);

// n-2+C steps; in step t the i-th hop carries chunk t-i. Every ring of the group carries an equal
// share.
[[nodiscard]] std::vector<Message> chain_messages(const GroupPlace& place, Bytes bytes,
                                                  const ChainPlan& plan);
// A phase a step. While the pipeline fills, a step takes the latency of the hop that the first
// chunk crosses, then that of the slowest hop: sum over hops of (alpha + S/(CB)) + (C-1)(alpha +
// S/(CB)).
[[nodiscard]] std::vector<Phase> chain_phases(const GroupPlace& place, Bytes bytes,
                                              const ChainPlan& plan);
// Why the ranks are too many for chains, whatever the size.
[[nodiscard]] std::optional<std::string> chain_refusal(const GroupPlace& place);
[[nodiscard]] std::uint32_t chain_pieces(const GroupPlace& place, const ChainPlan& plan);

}  // namespace trainyard
