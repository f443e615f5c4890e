#include <algorithm>

#include "models/schedules/schedule.hpp"
#include "models/schedules/walk.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// A forward's activations live until its backward, or where that is split its weight part, has
// ended. A rank does one thing at a time, so counting along its list is counting along its time.
std::int64_t peak_activations(const std::vector<PlayedStep>& steps) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const PlayedStep& played : steps) {
    const StepKind kind = played.step.kind;
    if (kind == StepKind::Forward) peak = std::max(peak, ++held);
    if (kind == StepKind::Backward || kind == StepKind::BackwardWeight) --held;
  }
  return peak;
}

}  // namespace

PlayedSchedule play_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                             const StepDurations& durations) {
  Walk walk = walk_schedule(lists, shape, durations);
  PlayedSchedule result;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    TY_CHECK(walk.next[rank] == lists[rank].size(), rank, walk.next[rank]);
    double busy = 0.0;
    bool second_of_pair = false;
    for (const PlayedStep& played : walk.played[rank]) {
      // The second of an overlapped pair has the times of the first.
      if (!second_of_pair) busy += played.end_s - played.start_s;
      second_of_pair = !second_of_pair && played.step.overlapped;
      result.makespan_s = std::max(result.makespan_s, played.end_s);
    }
    result.busy_s.push_back(busy);
    result.peak_activations.push_back(peak_activations(walk.played[rank]));
  }
  result.ranks = std::move(walk.played);
  return result;
}

}  // namespace trainyard
