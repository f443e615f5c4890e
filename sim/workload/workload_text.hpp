// Parts of a workload in words, for reports: many ranks in few words, and the first difference of
// two programs.
//
//   to_text(rank_blocks({0, 1, 8, 9, 16, 17}));   // "0-1 and every 8 to 16-17"
//   program_difference(workload, 3, 0);
//   // "operation 14 (expert_up): grouped_gemm 8x4096x7168 ..., not grouped_gemm 6x4096x7168 ..."
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// `length` ranks from `first` on, and as many again `every` ranks, `times` times in all.
struct RankBlocks {
  RankId first = 0;
  std::uint32_t length = 1;
  std::uint32_t every = 0;  // 0: once
  std::uint32_t times = 1;
  bool operator==(const RankBlocks&) const = default;
};

// Groups the ranks, each once and in order. REQUIRES: they ascend.
[[nodiscard]] std::vector<RankBlocks> rank_blocks(const std::vector<RankId>& ranks);

// "0-7, 16-23"; three or more at equal distances "0-7 and every 128 to 896-903"; after six of them
// "and 12 more blocks".
[[nodiscard]] std::string to_text(const std::vector<RankBlocks>& blocks);

// How `program` differs from `other`: its stage, the first operation that is not the same, or what
// it holds in memory. "nothing" for equal programs. REQUIRES: both are of the workload.
[[nodiscard]] std::string program_difference(const Workload& workload, std::uint32_t program,
                                             std::uint32_t other);

}  // namespace trainyard
