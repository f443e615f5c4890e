#include "models/lower/step_runs.hpp"

#include <utility>

namespace trainyard {

StepRuns::StepRuns(const StageLayout& layout, bool overlaps)
    : layout_(layout), overlaps_(overlaps), entered_(layout.chunks().size(), false) {
  for (const StageChunk& chunk : layout_.chunks()) backwards_left_.push_back(chunk.microbatches);
}

// Takes as many consecutive steps of one microbatch as possible, such as b3 and w3: longer runs
// give fewer instances.
StepRun StepRuns::next(const std::vector<ScheduleStep>& steps, std::size_t at, StepRun storage) {
  StepRun run = std::move(storage);
  run.kind.overlapped = is_overlapped(steps, at);
  run.kind.steps.clear();
  run.turns.clear();
  run.not_repeatable = false;
  std::size_t end = at + (run.kind.overlapped ? 2 : 1);
  if (!run.kind.overlapped)
    while (end < steps.size() && steps[end].microbatch == steps[at].microbatch &&
           !is_overlapped(steps, end))
      ++end;
  run.steps = std::span(steps).subspan(at, end - at);
  for (const ScheduleStep& step : run.steps) {
    const FirstOrLast turn = next_turn(step);
    run.turns.push_back(turn);
    run.kind.steps.emplace_back(step.kind, step.chunk, step.microbatch - steps[at].microbatch);
    const bool writes =
        step.kind == StepKind::Forward || layout_.has_backward(layout_.chunk(step.chunk));
    run.not_repeatable = run.not_repeatable || turn.first || turn.last || !writes;
  }
  return run;
}

// The schedule marks the pairs that overlap. The last backward of a chunk is never overlapped: the
// replicas reduce gradients around its layers, and interleaving would invalidate the operation
// numbers that the data-parallel scheme has stored.
bool StepRuns::is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const {
  if (!overlaps_ || !steps[at].overlapped || at + 1 == steps.size()) return false;
  return backwards_left_[static_cast<std::size_t>(steps[at + 1].chunk)] > 1;
}

// The input part of a split backward computes no weight gradient, so that it does not count. The
// gradients of a chunk are final after the last of the other backwards.
FirstOrLast StepRuns::next_turn(const ScheduleStep& step) {
  const StageChunk& chunk = layout_.chunk(step.chunk);
  if (step.kind == StepKind::Forward) {
    const bool first = !entered_[chunk.number()];
    entered_[chunk.number()] = true;
    return {.first = first};
  }
  if (step.kind == StepKind::BackwardInput || !layout_.has_backward(chunk)) return {};
  std::int64_t& left = backwards_left_[chunk.number()];
  const bool first = left == chunk.microbatches;
  return {.first = first, .last = --left == 0};
}

}  // namespace trainyard
