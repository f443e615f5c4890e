// The steps of a pipeline rank's schedule in runs: a run is written as one block, and runs that go
// alike are instances of one.
//
//   StepRuns runs(layout, overlaps);
//   for (std::size_t at = 0; at < steps.size(); at += run.steps.size()) run = runs.next(steps, at);
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

// Whether a forward or a backward is the first of its chunk, or the last. Of backwards those count
// that leave gradients of weights, of forwards none is the last.
struct StepTurn {
  bool first = false;
  bool last = false;
  bool operator==(const StepTurn&) const = default;
};

// Runs of one kind may go alike.
struct StepsKind {
  bool overlapped = false;
  // The step and its chunk, and how many microbatches it is after the first step.
  std::vector<std::tuple<StepKind, std::int32_t, std::int32_t>> steps = {};
  auto operator<=>(const StepsKind&) const = default;
};

// Steps of one microbatch that follow each other, or a forward and a backward that overlap.
struct StepRun {
  std::span<const ScheduleStep> steps = {};
  StepsKind kind = {};
  std::vector<StepTurn> turns = {};  // by step
  // It is the first or the last of something, or of a chunk that has no backward.
  bool singular = false;
};

class StepRuns {
 public:
  // `layout` outlives this. `overlaps`: a forward and a backward may run as one block.
  StepRuns(const StageLayout& layout, bool overlaps);

  // The run that begins with step number `at`. REQUIRES: all before it have been asked for.
  [[nodiscard]] StepRun next(const std::vector<ScheduleStep>& steps, std::size_t at);

 private:
  [[nodiscard]] bool is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const;
  [[nodiscard]] StepTurn next_turn(const ScheduleStep& step);

  const StageLayout& layout_;
  const bool overlaps_;
  std::vector<bool> entered_;                 // by chunk: a forward has come
  std::vector<std::int64_t> backwards_left_;  // by chunk: microbatches without their backward
};

}  // namespace trainyard
