// Pipelining: the number of chunks into which a buffer is cut, and the simplest pipeline, the
// chain.
//
//    T = (d-1+C)(alpha + S/(CB)), least at C = sqrt(S(d-1)/(alpha B))
//
// d hops in series, C chunks, S bytes that cross each hop. C is rounded to a power of two from 1 to
// 64. Example: a chain of 8 ranks, B = 100 GB/s, alpha = 5 us. S = 2^30 gives 113.5, taken as 64; S
// = 2^20 gives 3.5, taken as 4; less than 83 333 bytes are not cut
// (tests/sim/collectives/new_algorithms_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

inline constexpr std::uint32_t kChunksMost = 64;

// The number of chunks that gives the least time. Rate and latency are those of the route from
// group rank 0 to a member on another node, or to group rank 1 if all members are on one node.
[[nodiscard]] std::uint32_t chunks_of(const PlacedGroup& placed, Bytes bytes, std::size_t hops);

// Number of chunks for a pipeline in which only the first chunk pays the latency
// (CollectiveAlgorithm::streams). More chunks are then never slower. The result is a power of two
// up to `most` with at least 4 KiB per chunk.
[[nodiscard]] std::uint32_t stream_chunks(Bytes bytes, std::uint32_t most);

// A chain: the chunks travel along every ring of the group, which is cut at the root.
struct ChainPlan {
  std::uint32_t chunks = 64;           // per ring
  std::uint32_t pieces_per_chunk = 1;  // pieces() is finer than the chunks by this factor
  bool reduce = false;  // true: towards the root (group rank 0) with sums; false: away from it
};

// n-2+C steps; in step t hop i carries chunk t-i. Every ring of the group carries an equal share.
[[nodiscard]] std::vector<Message> chain_messages(const PlacedGroup& placed, Bytes bytes,
                                                  const ChainPlan& plan);

}  // namespace trainyard
