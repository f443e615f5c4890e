// Text for parts of a workload in reports: lists of ranks in short form, and the first difference
// of two programs.
//
//    to_text(rank_blocks({0, 1, 8, 9, 16, 17}));   // "0-1 and every 8 to 16-17"
//    program_difference(workload, 3, 0);
//    // "operation 14 (up): grouped_gemm experts8 rows512 ..., not grouped_gemm experts8 rows9 ..."
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// A run of `length` ranks from `first` on, repeated `times` times at a distance of `every` ranks.
struct RankBlocks {
  RankId first = 0;
  std::uint32_t length = 1;
  std::uint32_t every = 0;  // 0: no repetition
  std::uint32_t times = 1;
  bool operator==(const RankBlocks&) const = default;
};

// Groups the ranks into blocks, in order. REQUIRES: the ranks ascend.
[[nodiscard]] std::vector<RankBlocks> rank_blocks(const std::vector<RankId>& ranks);

// Returns "0-7, 16-23". Three or more runs at equal distances become "0-7 and every 128 to
// 896-903". More than six blocks end with "and 12 more blocks".
[[nodiscard]] std::string to_text(const std::vector<RankBlocks>& blocks);

// Returns the first difference of `program` from `other`: its stage, an operation, or its memory.
// "nothing" for equal programs. REQUIRES: both are indices of the workload's programs.
[[nodiscard]] std::string program_difference(const Workload& workload, std::uint32_t program,
                                             std::uint32_t other);

}  // namespace trainyard
