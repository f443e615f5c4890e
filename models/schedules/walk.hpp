// Executing a schedule's lists by one rule: a step starts when its rank is free and its inputs have
// arrived. play.cpp reads the times, check.cpp reads where it stops.
//
//   Walk walk = walk_schedule(lists, shape, durations);
//   walk.next[3] == lists[3].size();   // rank 3 reached its end
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/schedules/schedule.hpp"

namespace trainyard {

struct Walk {
  std::vector<std::vector<PlayedStep>> played;  // by rank, what was executed
  std::vector<std::size_t> next;                // by rank, the first step not executed
  // The input that the rank's next step misses; nothing for a rank that reached its end.
  struct Missing {
    ScheduleStep input;
    std::int64_t rank = 0;  // who produces it
  };
  std::vector<std::optional<Missing>> missing;
};

// REQUIRES: one list per rank, every step's microbatch and chunk within the shape.
[[nodiscard]] Walk walk_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                                 const StepDurations& durations);

}  // namespace trainyard
