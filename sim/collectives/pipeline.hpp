// How many chunks a pipeline cuts its buffer into.
//
//   T = (d-1+C)(alpha + S/(CB)), least at C = sqrt(S(d-1)/(alpha B))
//
// d hops in a row, C chunks, S bytes that cross each hop. Rounded to a power of two from 1 to 64: 8
// ranks in a chain, S = 2^30, B = 100 GB/s, alpha = 5 us: 113.5, taken as 64; S = 2^20: 3.5, taken
// as 4; less than 83 333 bytes are not cut (tests/sim/collectives/pipeline_test.cpp).
#pragma once

#include <cstdint>

#include "sim/collectives/collective.hpp"

namespace trainyard {

inline constexpr std::uint32_t kChunksMost = 64;

// The rate and latency are those of the way from role 0 to the farthest kind of neighbour the group
// has: another node where it stands on several.
[[nodiscard]] std::uint32_t chunks_of(const GroupPlace& place, Bytes bytes, std::size_t hops);

// Where what follows the first chunk does not pay the latency again (CollectiveAlgorithm::streams),
// more chunks are never worse: a power of two up to `most`, of 4 KiB each at least.
[[nodiscard]] std::uint32_t stream_chunks(Bytes bytes, std::uint32_t most);

}  // namespace trainyard
