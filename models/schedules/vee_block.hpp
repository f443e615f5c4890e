// V-shaped schedules from a repeated block (Qi et al. 2405.15362, section 3): the six steps of one
// microbatch on each rank, repeated every six steps' time. How fast the four passes travel over the
// ranks sets how long an activation lives, and so the memory.
//
//   vee_block_lists(shape, {.speed_sums = {4}, .activations_most = 4});
#pragma once

#include <cstdint>
#include <vector>

#include "models/schedules/schedule.hpp"

namespace trainyard {

struct VeeBlockGoal {
  // Steps that the four passes (F0 down, F1 up, B1 down, B0 up) take together from one rank to the
  // next: an activation of rank 0 lives about p times that. 12 is ZB-V, 6 half of it, 4 a third.
  std::vector<std::int64_t> speed_sums;
  std::int64_t activations_most = 0;  // chunk activations; kept to as closely as any block does
};
// The shortest of the blocks that meet the goal, for F = B = W.
[[nodiscard]] ScheduleLists vee_block_lists(const PipelineShape& shape, const VeeBlockGoal& goal);

}  // namespace trainyard
