// The steps of a schedule, of which those that go alike are written once.
#include <algorithm>
#include <array>
#include <cstddef>

#include "models/lower/stage.hpp"

namespace trainyard {

namespace {

// What stands before a step differs in few ways: with and without a message on its way, behind
// another step of its kind or not.
constexpr std::size_t kMostWays = 8;

}  // namespace

// Steps of one microbatch that follow each other, or a forward and a backward that overlap.
std::size_t StageLowering::steps_of_block(const std::vector<ScheduleStep>& steps,
                                          std::size_t at) const {
  if (is_overlapped(steps, at)) return 2;
  std::size_t end = at + 1;
  while (end < steps.size() && steps[end].microbatch == steps[at].microbatch &&
         !is_overlapped(steps, end))
    ++end;
  return end - at;
}

// Receives that do not overlap are posted after an operation of a step before, which the block may
// name; where messages overlap none is named.
void StageLowering::write_block(std::span<const ScheduleStep> steps, bool overlapped) {
  std::vector<Turn> turns;
  bool alike = true;
  BlockKind kind{.overlapped = overlapped, .steps = {}};
  for (const ScheduleStep& step : steps) {
    turns.push_back(next_turn(step));
    alike = alike && goes_as_others(step, turns.back());
    kind.steps.emplace_back(step.kind, step.chunk, step.microbatch - steps.front().microbatch);
  }
  const bool forward = steps.front().kind == StepKind::Forward;
  build_.tag({.part = forward ? StepPart::Forward : StepPart::Backward,
              .microbatch = steps.front().microbatch});
  const std::array named{done_before_, exchanged_};
  const std::span<const OpIndex> may_name =
      plan_.parallelism.overlap_p2p ? std::span<const OpIndex>{} : named;
  std::vector<StepBlock>& written = written_[kind];
  if (alike && repeats_ && instantiated(written, may_name)) return;
  StepBlock fresh{build_.begin_block(may_name, steps.back().microbatch)};
  write_out(steps, turns, overlapped, fresh);
  if (!repeats_) return;
  std::vector<std::uint32_t> known;
  for (const StepBlock& one : written) known.push_back(one.block);
  if (!build_.end_block(fresh, known)) return;
  fresh.closed = fresh.closed && alike;
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(std::move(fresh));
}

bool StageLowering::instantiated(const std::vector<StepBlock>& written,
                                 std::span<const OpIndex> may_name) {
  for (const StepBlock& known : written) {
    const auto begin = build_.instantiate(known, may_name);
    if (!begin) continue;
    const auto here = [&](OpIndex inside) {
      return inside == kNone ? kNone : begin->copied(inside);
    };
    for (const OpIndex at : known.step_begins) step_begins_.push_back(here(at));
    done_before_ = here(known.done_before);
    exchanged_ = here(known.exchanged);
    return true;
  }
  return false;
}

void StageLowering::write_out(std::span<const ScheduleStep> steps, std::span<const Turn> turns,
                              bool overlapped, StepBlock& block) {
  const OpIndex first = build_.next();
  OpIndex second = first;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i > 0) second = build_.next();
    const OpIndex begin = overlapped ? first : second;
    step_begins_.push_back(begin);
    block.step_begins.push_back(begin - first);
    const bool exchanges = steps[i].kind != StepKind::BackwardWeight;
    if (exchanges) begin_step();
    steps[i].kind == StepKind::Forward ? forward(steps[i]) : backward(steps[i], turns[i]);
    if (exchanges) exchanged_ = build_.last_compute();
  }
  if (overlapped) {
    build_.overlap(first, second);
    exchanged_ = done_before_ = build_.last_compute();
  }
  const auto inside = [&](OpIndex op) { return op == kNone ? kNone : block.begin.inside(op); };
  block.done_before = inside(done_before_);
  block.exchanged = inside(exchanged_);
}

// The input part leaves no gradient of a weight; with the last of the others they are final.
StageLowering::Turn StageLowering::next_turn(const ScheduleStep& step) {
  if (step.kind == StepKind::Forward || step.kind == StepKind::BackwardInput) return {};
  Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  if (!has_backward(chunk)) return {};
  const bool first = chunk.backwards_left == chunk.microbatches;
  return {.first = first, .last = --chunk.backwards_left == 0};
}

// Whether nothing but what stands before the step tells it from another of its kind and chunk.
bool StageLowering::goes_as_others(const ScheduleStep& step, const Turn& turn) const {
  if (turn.first || turn.last || plan_.offload.any()) return false;
  if (plan_.documents.kind != DocumentKind::None) return false;
  if (shape_.routing != nullptr && shape_.routing->by_microbatch()) return false;
  const auto chunk = static_cast<std::size_t>(step.chunk);
  if (step.kind == StepKind::Forward) return replicas_->leaves_forwards(chunk);
  return has_backward(chunks_[chunk]) && replicas_->leaves_backwards();
}

}  // namespace trainyard
