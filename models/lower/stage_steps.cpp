// The steps of a schedule, of which those that go alike are written once.
#include <array>
#include <cstddef>

#include "models/lower/stage.hpp"

namespace trainyard {

namespace {

// What stands before a step differs in few ways: with and without a message on its way, behind
// another step of its kind or not.
constexpr std::size_t kMostWays = 8;

}  // namespace

void StageLowering::write(const ScheduleStep& step) {
  const bool exchanges = step.kind != StepKind::BackwardWeight;
  if (exchanges) begin_step();
  const Turn turn = next_turn(step);
  if (goes_as_others(step, turn)) {
    const std::array named{posted_after_};
    write_or_repeat({.kind = step.kind, .chunk = step.chunk}, step.microbatch,
                    exchanges ? named : std::span<const OpIndex>{}, [&] { write_out(step, turn); });
  } else {
    write_out(step, turn);
  }
  if (exchanges) exchanged_ = build_.last_compute();
}

// Where messages overlap no receive names a step before; where a user's own pairs have others, they
// are written out.
void StageLowering::write_woven(const ScheduleStep& forward, const ScheduleStep& backward) {
  const Turn turn = next_turn(backward);
  if (plan_.parallelism.overlap_p2p && goes_as_others(forward, {}) &&
      goes_as_others(backward, turn)) {
    const PassageKind pair{.kind = forward.kind,
                           .chunk = forward.chunk,
                           .beside = backward.chunk,
                           .ahead = backward.microbatch - forward.microbatch};
    write_or_repeat(pair, forward.microbatch, {}, [&] { weave_out(forward, backward, turn); });
  } else {
    weave_out(forward, backward, turn);
  }
  exchanged_ = done_before_ = build_.last_compute();
}

void StageLowering::weave_out(const ScheduleStep& forward, const ScheduleStep& backward,
                              const Turn& turn) {
  const OpIndex first = build_.next();
  begin_step();
  write_out(forward, {});
  exchanged_ = build_.last_compute();
  const OpIndex second = build_.next();
  begin_step();
  write_out(backward, turn);
  build_.weave(first, second);
}

void StageLowering::write_out(const ScheduleStep& step, const Turn& turn) {
  step.kind == StepKind::Forward ? forward(step) : backward(step, turn);
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
  if (!repeats_ || turn.first || turn.last || plan_.offload.any()) return false;
  if (plan_.documents.kind != DocumentKind::None) return false;
  if (shape_.routing != nullptr && shape_.routing->by_microbatch()) return false;
  const auto chunk = static_cast<std::size_t>(step.chunk);
  if (step.kind == StepKind::Forward) return replicas_->leaves_forwards(chunk);
  return has_backward(chunks_[chunk]) && replicas_->leaves_backwards();
}

void StageLowering::write_or_repeat(const PassageKind& kind, std::int32_t microbatch,
                                    std::span<const OpIndex> named,
                                    const std::function<void()>& write) {
  const bool forward = kind.kind == StepKind::Forward;
  build_.tag({.part = forward ? StepPart::Forward : StepPart::Backward, .microbatch = microbatch});
  std::vector<WrittenPassage>& written = written_[kind];
  for (const WrittenPassage& known : written)
    if (build_.repeat(known, named)) return;
  WrittenPassage fresh = build_.begin_passage(named, microbatch + kind.ahead);
  write();
  if (!build_.end_passage(fresh)) return;
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(std::move(fresh));
}

}  // namespace trainyard
