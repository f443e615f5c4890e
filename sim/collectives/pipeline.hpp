// Pipelines: how many chunks a buffer is cut into, and the flow, the plainest of them.
//
//   T = (d-1+C)(alpha + S/(CB)), least at C = sqrt(S(d-1)/(alpha B))
//
// d hops in a row, C chunks, S bytes that cross each hop. Rounded to a power of two from 1 to 64: 8
// ranks in a flow, S = 2^30, B = 100 GB/s, alpha = 5 us: 113.5, taken as 64; S = 2^20: 3.5, taken
// as 4; less than 83 333 bytes are not cut (tests/sim/collectives/new_algorithms_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

inline constexpr std::uint32_t kChunksMost = 64;

// How many chunks take the least time. The rate and latency are those of the way from group rank 0
// to the farthest kind of neighbour the group has: another node where it stands on several.
[[nodiscard]] std::uint32_t chunks_of(const GroupPlace& place, Bytes bytes, std::size_t hops);

// Where what follows the first chunk does not pay the latency again (CollectiveAlgorithm::streams),
// more chunks are never worse: a power of two up to `most`, of 4 KiB each at least.
[[nodiscard]] std::uint32_t stream_chunks(Bytes bytes, std::uint32_t most);

// Chunks along every ring of the group, cut at the root.
struct ChainPlan {
  std::uint32_t chunks = 64;           // per ring
  std::uint32_t pieces_per_chunk = 1;  // how fine pieces() cuts beyond the chunks
  bool reduce = false;  // towards the root (group rank 0), adding up; else away from it
};

// n-2+C steps; in step t the i-th hop carries chunk t-i. Every ring of the group carries an equal
// share.
[[nodiscard]] std::vector<Message> chain_messages(const GroupPlace& place, Bytes bytes,
                                                  const ChainPlan& plan);

}  // namespace trainyard
