// What each step of a schedule takes of a rank at least, read from a lowered program.
//
//   const ScheduleLists lists = step_lists(plan);
//   const SteppedWorkload step = lower_steps(plan, lists);
//   RankLeast least = rank_least({.workload = step.workload, .program = 0,
//                                 .kernel_seconds = seconds, .begins = step.begins[0],
//                                 .steps = lists[0], .chunks = 1, .times = times});
//   least.of({.kind = StepKind::Forward, .chunk = 0}).occupied_s;
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "models/schedules/schedule.hpp"
#include "sim/workload/workload.hpp"
#include "tools/studies/search/call_times.hpp"

namespace trainyard {

// Of one kind of step of one chunk; the least of its microbatches.
struct StepLeast {
  double occupied_s = 0.0;    // from its first kernel's start to its last kernel's end
  double output_s = 0.0;      // from its first kernel's start to when its message may leave
  double left_bytes = 0.0;    // what its microbatch holds of the chunk after it
  double needed_bytes = 0.0;  // the most it holds while it runs, beyond what was there
};

[[nodiscard]] StepLeast least_of(const StepLeast& a, const StepLeast& b);

struct RankLeast {
  double head_s = 0.0;  // kernels before the first step
  double tail_s = 0.0;  // kernels after the last
  double held_bytes = 0.0;
  std::array<std::vector<StepLeast>, 4> steps = {};  // by kind, then by chunk

  [[nodiscard]] const StepLeast& of(const ScheduleStep& step) const {
    return steps.at(static_cast<std::size_t>(step.kind)).at(static_cast<std::size_t>(step.chunk));
  }
};

// What ranks of one stage need that run different programs, as those do that share a sequence.
[[nodiscard]] RankLeast least_of(RankLeast a, const RankLeast& b);

struct RankQuestion {
  const Workload& workload;
  std::uint32_t program = 0;
  std::span<const double> kernel_seconds;  // by index into Workload::kernels
  const std::vector<OpIndex>& begins;      // of the program's steps (SteppedWorkload)
  const std::vector<ScheduleStep>& steps;  // of the same rank and number of microbatches
  std::size_t chunks = 1;
  const CallTimes& times;
  // Steps may run as one block with others, under whose kernels their collectives hide.
  bool kernels_only = false;
};

// REQUIRES: the program was lowered from these steps, and a rank runs it. A kind of step that is
// not among them takes nothing.
[[nodiscard]] RankLeast rank_least(const RankQuestion& question);

}  // namespace trainyard
