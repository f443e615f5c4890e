#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "models/expert_routing.hpp"

namespace trainyard {

namespace {

// The surroundings of a step differ in few ways: with and without a message on its way, behind
// another step of its kind or not.
constexpr std::size_t kMostWays = 8;

std::string program_name(const PipelineOptions& pipeline, const StagePlace& place) {
  if (pipeline.ring_programs == 1) return fmt::format("stage {}", place.stage);
  return fmt::format("stage {} ring {}", place.stage, place.ring_place);
}

StepShape shape_at(const StepShape& anywhere, const StagePlace& place) {
  StepShape shape = anywhere;
  shape.ring_place = place.ring_place;
  shape.routing = place.routing;
  shape.seat = place.seat;
  shape.replica = place.replica;
  return shape;
}

}  // namespace

StageLowering::StageLowering(const LoweringOptions& options, const PipelineOptions& pipeline,
                             const StagePlace& place, Interner& interner)
    : shape_(shape_at(options.shape, place)),
      layout_(pipeline, place.stage),
      build_(interner, program_name(pipeline, place), static_cast<std::uint32_t>(place.stage)),
      recorder_(build_),
      writer_({options, shape_, layout_, build_}),
      overlaps_(pipeline.overlaps_steps),
      differ_(pipeline.microbatches_differ ||
              (place.routing != nullptr && place.routing->by_microbatch())) {
  for (const StageChunk& chunk : layout_.chunks()) backwards_left_.push_back(chunk.microbatches);
}

Program StageLowering::lower(const std::vector<ScheduleStep>& steps) {
  writer_.begin();
  for (std::size_t at = 0; at < steps.size();) {
    const std::size_t count = steps_of_block(steps, at);
    write_block(std::span(steps).subspan(at, count), is_overlapped(steps, at));
    at += count;
  }
  step_begins_.push_back(build_.next());
  writer_.end();
  return build_.take();
}

// The schedule says which pairs are overlapped. The last backward of a chunk stays whole.
bool StageLowering::is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const {
  if (!overlaps_ || !steps[at].overlapped || at + 1 == steps.size()) return false;
  return backwards_left_[static_cast<std::size_t>(steps[at + 1].chunk)] > 1;
}

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
  const StageMessages& messages = writer_.messages();
  const std::array ended{messages.ended().before, messages.ended().latest};
  const std::span<const OpIndex> may_name =
      messages.receives_name_steps() ? std::span<const OpIndex>(ended) : std::span<const OpIndex>{};
  std::vector<StepBlock>& written = written_[kind];
  if (alike && repeats_ && instantiated(written, may_name)) return;
  StepBlock fresh{recorder_.begin_block(may_name, steps.back().microbatch)};
  write_out(steps, turns, overlapped, fresh);
  if (!repeats_) return;
  std::vector<std::uint32_t> known;
  for (const StepBlock& one : written) known.push_back(one.block);
  if (!recorder_.end_block(fresh, known)) return;
  fresh.closed = fresh.closed && alike;
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(std::move(fresh));
}

bool StageLowering::instantiated(const std::vector<StepBlock>& written,
                                 std::span<const OpIndex> may_name) {
  for (const StepBlock& known : written) {
    const auto begin = recorder_.instantiate(known, may_name);
    if (!begin) continue;
    const auto here = [&](OpIndex inside) {
      return inside == kNone ? kNone : begin->copied(inside);
    };
    for (const OpIndex at : known.step_begins) step_begins_.push_back(here(at));
    writer_.messages().set_ended({here(known.ended.before), here(known.ended.latest)});
    return true;
  }
  return false;
}

void StageLowering::write_out(std::span<const ScheduleStep> steps, std::span<const Turn> turns,
                              bool overlapped, StepBlock& block) {
  StageMessages& messages = writer_.messages();
  const OpIndex first = build_.next();
  OpIndex second = first;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i > 0) second = build_.next();
    const OpIndex begin = overlapped ? first : second;
    step_begins_.push_back(begin);
    block.step_begins.push_back(begin - first);
    const bool exchanges = steps[i].kind != StepKind::BackwardWeight;
    if (exchanges) messages.begin_step();
    steps[i].kind == StepKind::Forward ? writer_.forward(steps[i])
                                       : writer_.backward(steps[i], turns[i]);
    if (exchanges) messages.end_step();
  }
  if (overlapped) {
    recorder_.overlap(first, second);
    messages.end_overlapped();
  }
  const auto inside = [&](OpIndex op) { return op == kNone ? kNone : block.begin.inside(op); };
  block.ended = {inside(messages.ended().before), inside(messages.ended().latest)};
}

// The input part leaves no gradient of a weight; with the last of the others they are final.
StageLowering::Turn StageLowering::next_turn(const ScheduleStep& step) {
  if (step.kind == StepKind::Forward || step.kind == StepKind::BackwardInput) return {};
  const StageChunk& chunk = layout_.chunk(step.chunk);
  if (!layout_.has_backward(chunk)) return {};
  std::int64_t& left = backwards_left_[chunk.number()];
  const bool first = left == chunk.microbatches;
  return {.first = first, .last = --left == 0};
}

// Whether nothing but what stands before the step tells it from another of its kind and chunk.
bool StageLowering::goes_as_others(const ScheduleStep& step, const Turn& turn) const {
  if (differ_ || turn.first || turn.last) return false;
  const StageChunk& chunk = layout_.chunk(step.chunk);
  if (step.kind == StepKind::Forward) return writer_.replicas().leaves_forwards(chunk.number());
  return layout_.has_backward(chunk) && writer_.replicas().leaves_backwards();
}

}  // namespace trainyard
