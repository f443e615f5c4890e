// The eight phases that DualPipe and DualPipeV share (deepseek-ai/DualPipe, README), for one rank.
//
//   dual_steps({.ahead = 1, .inner = 0, .steady = 1, .middle = false, .chunk = {0, 1}});
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/schedules/schedule.hpp"

namespace trainyard {

struct DualRank {
  std::int64_t ahead = 0;                      // ranks between this one and the middle
  std::int64_t inner = 0;                      // ranks between this one and its end of the pipeline
  std::int64_t steady = 0;                     // rounds of two overlapped pairs
  bool middle = false;                         // its very first pair runs one after the other
  std::array<std::int32_t, 2> chunk = {0, 1};  // of phase 0 and phase 1
  std::array<std::int32_t, 2> first_microbatch = {0, 0};  // of phase 0 and phase 1
};
[[nodiscard]] std::vector<ScheduleStep> dual_steps(const DualRank& rank);

}  // namespace trainyard
