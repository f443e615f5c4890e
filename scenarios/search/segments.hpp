// What each step of a schedule takes of a rank at least, read from a lowered program.
//
// A program is its schedule's steps one after the other; on the compute stream a new step begins
// where the microbatch or the direction changes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "models/schedules/schedule.hpp"
#include "scenarios/search/call_times.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

// Of one forward or backward step of one chunk; the least of its microbatches.
struct StepLeast {
  double occupied_s = 0.0;    // from its first kernel's start to its last kernel's end
  double output_s = 0.0;      // from its first kernel's start to when its message may leave
  double kept_bytes = 0.0;    // forward: what it leaves behind
  double needed_bytes = 0.0;  // the most it holds while it runs, beyond what was there
};

struct RankLeast {
  double head_s = 0.0;  // kernels before the first step
  double tail_s = 0.0;  // kernels after the last
  double held_bytes = 0.0;
  std::vector<StepLeast> forward;   // by chunk
  std::vector<StepLeast> backward;  // by chunk
};

struct RankQuestion {
  const Workload& workload;
  std::uint32_t program = 0;
  std::span<const double> kernel_seconds;  // by index into Workload::kernels
  const std::vector<ScheduleStep>& steps;  // of the same rank and number of microbatches
  std::size_t chunks = 1;
  const CallTimes& times;
};

// Nothing where the program does not show its steps.
[[nodiscard]] std::optional<RankLeast> rank_least(const RankQuestion& question);

}  // namespace trainyard
