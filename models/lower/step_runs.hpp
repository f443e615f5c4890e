// Divides the steps of a pipeline rank's schedule into runs. A run is written as one block, and
// runs with identical operations are instances of one block.
//
//    StepRuns runs(layout, overlaps);
//    for (std::size_t at = 0; at < steps.size();) {
//      const StepRun run = runs.next(steps, at);
//      at += run.steps.size();
//    }
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "models/lower/stage_layout.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// Whether a forward or a backward is the first or the last of its chunk. Among backwards, only
// those that compute weight gradients count. No forward is marked as the last.
struct FirstOrLast {
  bool first = false;
  bool last = false;
  bool operator==(const FirstOrLast&) const = default;
};

// Only runs of the same kind can have identical operations.
struct StepsKind {
  bool overlapped = false;
  // Kind and chunk of each step, and its microbatch minus that of the first step.
  std::vector<std::tuple<StepKind, std::int32_t, std::int32_t>> steps = {};
  auto operator<=>(const StepsKind&) const = default;
};

// Consecutive steps of one microbatch, or a forward and a backward that overlap.
struct StepRun {
  std::span<const ScheduleStep> steps = {};
  StepsKind kind = {};
  std::vector<FirstOrLast> turns = {};  // by step
  // A step is the first or the last of its chunk, or a backward of a chunk that has none.
  bool not_repeatable = false;
};

class StepRuns {
 public:
  // `layout` outlives the object. `overlaps`: a forward and a backward may run as one block.
  StepRuns(const StageLayout& layout, bool overlaps);

  // The run that begins with step number `at`, in the lists of `storage`. REQUIRES: the object has
  // returned all earlier runs, in order.
  [[nodiscard]] StepRun next(const std::vector<ScheduleStep>& steps, std::size_t at,
                             StepRun storage = {});

 private:
  [[nodiscard]] bool is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const;
  [[nodiscard]] FirstOrLast next_turn(const ScheduleStep& step);

  const StageLayout& layout_;
  const bool overlaps_;
  std::vector<bool> entered_;                 // by chunk: it has had a forward
  std::vector<std::int64_t> backwards_left_;  // by chunk: microbatches whose backward is to come
};

}  // namespace trainyard
