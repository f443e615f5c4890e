// Finds when the steps of several jobs repeat.
//
// Jobs that share links slow each other by how their steps overlap, which changes from step to step
// until the overlap repeats. The state of a run is what has started and not ended, and when. At the
// end of a step of one job, all that is alive belongs to steps of the other jobs that have begun.
// Two such dates have the same state if everything that happened since the earliest of these
// beginnings happened in the same distances from both dates. What follows is then the same, again
// and again (the argument of sim/engine/steady_state.hpp, for steps in place of microbatches).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scenarios/jobs/joint_workload.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

struct Repetition {
  double begin_s = 0.0;
  double period_s = 0.0;
  // By job: its first step of the period, and the number of its steps in a period.
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> steps;
};

// Returns the ends of the steps of each job.
[[nodiscard]] std::vector<std::vector<double>> job_step_ends(std::span<const JobPart> jobs,
                                                             const Partition& partition,
                                                             const Timeline& timeline);

// Returns the earliest repetition with the shortest period; nothing where the steps played show
// none. REQUIRES: the timeline has recorded all times, and every job would make further steps.
[[nodiscard]] std::optional<Repetition> find_repetition(std::span<const JobPart> jobs,
                                                        const Partition& partition,
                                                        const Timeline& timeline);

}  // namespace trainyard
