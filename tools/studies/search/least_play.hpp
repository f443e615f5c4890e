// A schedule's lists played with the least that each step takes (segments.hpp): messages take no
// time, and a step's output may be there before the step has ended.
#pragma once

#include <vector>

#include "models/schedules/schedule.hpp"
#include "tools/studies/search/bounds.hpp"
#include "tools/studies/search/segments.hpp"

namespace trainyard {

// REQUIRES: check_schedule is silent about the lists; one RankLeast for each rank.
[[nodiscard]] LayoutBound least_play(const ScheduleLists& lists, const PipelineShape& shape,
                                     const std::vector<RankLeast>& ranks);

}  // namespace trainyard
