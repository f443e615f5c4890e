#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

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
  shape.expert_rank = place.expert_rank;
  shape.replica = place.replica;
  return shape;
}

Tags tags_of(const StepRun& run) {
  const bool forward = run.steps.front().kind == StepKind::Forward;
  return {.part = forward ? StepPart::Forward : StepPart::Backward,
          .microbatch = run.steps.front().microbatch};
}

// Receives that do not overlap are posted after an operation of a step before, which a block may
// name; where messages overlap none is named.
RecordingBorder border_of(const BlockRecorder& recorder, const StageMessages::Ended& ended,
                          bool names_steps) {
  const std::array both{ended.before, ended.latest};
  return recorder.border(names_steps ? std::span<const OpIndex>(both) : std::span<const OpIndex>{});
}

// The operation that a number of a block stands for where the block begins here.
OpIndex here(OpIndex inside, const RecordingBorder& now) {
  return inside == kNone ? kNone : now.copied(inside);
}

StageMessages::Ended ended_of(const StepBlock& block, const RecordingBorder& now) {
  return {here(block.ended.before, now), here(block.ended.latest, now)};
}

}  // namespace

// ---- writing

StageLowering::StageLowering(const LoweringOptions& options, const PipelineOptions& pipeline,
                             const StagePlace& place, Interner& interner)
    : shape_(shape_at(options.shape, place)),
      layout_(pipeline, place.stage),
      build_(interner, program_name(pipeline, place), static_cast<std::uint32_t>(place.stage)),
      recorder_(build_),
      writer_({options, shape_, layout_, build_}),
      differ_(pipeline.microbatches_differ ||
              (place.routing != nullptr && place.routing->by_microbatch())) {
  book_.overlaps = pipeline.overlaps_steps;
  book_.names_steps = writer_.messages().receives_name_steps();
  book_.complete =
      !differ_ && writer_.replicas().leaves_forwards() && writer_.replicas().leaves_backwards();
}

Program StageLowering::lower(const std::vector<ScheduleStep>& steps) {
  book_.complete = book_.complete && repeats_;
  write_around([this] { writer_.begin(); });
  StepRuns runs(layout_, book_.overlaps);
  for (std::size_t at = 0; at < steps.size();) {
    const StepRun run = runs.next(steps, at);
    write_run(run);
    at += run.steps.size();
  }
  step_begins_.push_back(build_.next());
  if (!steps.empty() && build_.tags().microbatch != steps.back().microbatch) book_.complete = false;
  write_around([this] { writer_.end(); });
  if (!build_.memory().all_of_blocks()) book_.complete = false;
  if (!book_.complete) book_ = {};
  return build_.take();
}

// Writes what stands before or behind all steps.
void StageLowering::write_around(const std::function<void()>& write) {
  SingleBlock block{{recorder_.begin_block(border())}};
  write();
  if (repeats_ && recorder_.end_block(block, {})) keep_single(std::move(block));
}

void StageLowering::write_run(const StepRun& run) {
  build_.tag(tags_of(run));
  const bool alike = goes_as_others(run);
  RecordingBorder now = border();
  std::vector<StepBlock>& written = book_.blocks[run.kind];
  if (alike && repeats_ && instantiated(written, now)) return;
  SingleBlock fresh{{recorder_.begin_block(std::move(now), run.steps.back().microbatch)}};
  write_out(run, fresh);
  if (!repeats_) return;
  std::vector<std::uint32_t> known;
  for (const StepBlock& one : written) known.push_back(one.block);
  if (!recorder_.end_block(fresh, known)) {
    book_.complete = false;
    return;
  }
  fresh.closed = fresh.closed && alike;
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(fresh);
  if (alike) return;
  fresh.kind = run.kind;
  fresh.turns = run.turns;
  keep_single(std::move(fresh));
}

bool StageLowering::instantiated(const std::vector<StepBlock>& written,
                                 const RecordingBorder& now) {
  for (const StepBlock& known : written) {
    if (!recorder_.instantiate(known, now)) continue;
    for (const OpIndex at : known.step_begins) step_begins_.push_back(here(at, now));
    writer_.messages().set_ended(ended_of(known, now));
    return true;
  }
  return false;
}

void StageLowering::write_out(const StepRun& run, StepBlock& block) {
  StageMessages& messages = writer_.messages();
  const OpIndex first = build_.next();
  OpIndex second = first;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const ScheduleStep& step = run.steps[i];
    if (i > 0) second = build_.next();
    const OpIndex begin = run.kind.overlapped ? first : second;
    step_begins_.push_back(begin);
    block.step_begins.push_back(begin - first);
    const bool exchanges = step.kind != StepKind::BackwardWeight;
    if (exchanges) messages.begin_step();
    step.kind == StepKind::Forward ? writer_.forward(step) : writer_.backward(step, run.turns[i]);
    if (exchanges) messages.end_step();
  }
  if (run.kind.overlapped) {
    recorder_.overlap(first, second);
    messages.end_overlapped();
  }
  const auto inside = [&](OpIndex op) { return op == kNone ? kNone : block.begin.inside(op); };
  block.ended = {inside(messages.ended().before), inside(messages.ended().latest)};
}

// Whether nothing but what stands before the run tells it from another of its kind.
bool StageLowering::goes_as_others(const StepRun& run) const {
  if (differ_ || run.singular) return false;
  return std::ranges::all_of(run.steps, [this](const ScheduleStep& step) {
    return step.kind == StepKind::Forward ? writer_.replicas().leaves_forwards()
                                          : writer_.replicas().leaves_backwards();
  });
}

RecordingBorder StageLowering::border() {
  return border_of(recorder_, writer_.messages().ended(), book_.names_steps);
}

void StageLowering::keep_single(SingleBlock single) {
  if (!book_.complete) return;
  const OperationBlocks& operations = build_.operations();
  const Instance& instance = operations.content().instances.back();
  const std::span<const OpIndex> inputs =
      std::span(operations.content().bindings).subspan(instance.bindings);
  single_begins_.push_back(instance.first);
  for (const OpIndex op : inputs) single.named_inputs.push_back(named(op, single.begin));
  for (const OpIndex op : operations.waits()) single.named_waits.push_back(named(op, single.begin));
  // An instance for another microbatch has all operations name it.
  if (!recorder_.names_own(single)) book_.complete = false;
  book_.singles.push_back(std::move(single));
}

SingleBlock::Named StageLowering::named(OpIndex op, const RecordingBorder& begin) {
  SingleBlock::Named named{.inside = begin.inside(op)};
  const OpIndex first = build_.operations().instance_of(op).first;
  const auto single = std::ranges::lower_bound(single_begins_, first);
  if (op < begin.next && single != single_begins_.end() && *single == first) {
    named.single = static_cast<std::uint32_t>(single - single_begins_.begin());
    named.place = op - first;
  }
  if (named.inside == kNone && named.single == kNone) book_.complete = false;
  return named;
}

// ---- arranging

namespace {

// Makes instances of the blocks in a book.
class Arrangement {
 public:
  Arrangement(const StageBook& book, const OperationList& known)
      : book_(book), interner_(none_), build_(interner_, {}, 0), recorder_(build_) {
    build_.operations().begin_with(known);
  }

  // Adds what stands before all steps or behind them.
  bool add_around() {
    const bool any = singles_ < book_.singles.size() && book_.singles[singles_].kind.steps.empty();
    return !any || add_single({}, border());
  }

  // Behind the last step its tags stand.
  void end_at(const ScheduleStep& last) {
    Tags tags = build_.tags();
    tags.microbatch = last.microbatch;
    tags.part = last.kind == StepKind::Forward ? StepPart::Forward : StepPart::Backward;
    build_.tag(tags);
  }

  bool add(const StepRun& run) {
    build_.tag(tags_of(run));
    const RecordingBorder now = border();
    if (run.singular) return add_single(run, now);
    const auto blocks = book_.blocks.find(run.kind);
    if (blocks == book_.blocks.end()) return false;
    const auto known = std::ranges::find_if(
        blocks->second, [&](const StepBlock& block) { return recorder_.instantiate(block, now); });
    if (known == blocks->second.end()) return false;
    ended_ = ended_of(*known, now);
    return true;
  }

  // Nothing where another block would have been written first.
  [[nodiscard]] std::optional<OperationList> taken(const OperationList& known) {
    if (singles_ != book_.singles.size()) return std::nullopt;
    OperationList::Content content = build_.operations().take();
    std::uint32_t blocks = 0;
    for (const Instance& instance : content.instances) {
      if (instance.block > blocks) return std::nullopt;
      if (instance.block == blocks) ++blocks;
    }
    if (blocks != content.blocks.size()) return std::nullopt;
    return known.rearranged(std::move(content.instances), std::move(content.bindings));
  }

 private:
  [[nodiscard]] RecordingBorder border() const {
    return border_of(recorder_, ended_, book_.names_steps);
  }

  bool add_single(const StepRun& run, const RecordingBorder& now) {
    if (singles_ == book_.singles.size()) return false;
    const SingleBlock& single = book_.singles[singles_++];
    if (single.kind != run.kind || single.turns != run.turns ||
        !recorder_.stands_alike(single, now))
      return false;
    begins_.push_back(now.next);
    std::vector<OpIndex> inputs;
    std::vector<OpIndex> waits;
    if (!find(single.named_inputs, now, inputs) || !find(single.named_waits, now, waits))
      return false;
    recorder_.add_instance(single, now, inputs, std::move(waits));
    ended_ = ended_of(single, now);
    return true;
  }

  // Returns false where it is not clear which operation is meant.
  [[nodiscard]] bool find(std::span<const SingleBlock::Named> named, const RecordingBorder& now,
                          std::vector<OpIndex>& found) const {
    for (const SingleBlock::Named& one : named) {
      const OpIndex inside = here(one.inside, now);
      const OpIndex remembered = one.single == kNone ? inside : begins_[one.single] + one.place;
      if (inside != kNone && inside != remembered) return false;
      found.push_back(remembered);
    }
    return true;
  }

  const StageBook& book_;
  Workload none_;
  Interner interner_;
  ProgramBuilder build_;
  BlockRecorder recorder_;
  StageMessages::Ended ended_;
  std::size_t singles_ = 0;      // that have come
  std::vector<OpIndex> begins_;  // of these
};

}  // namespace

std::optional<OperationList> arranged(const StageBook& book, const OperationList& known,
                                      const StageLayout& layout,
                                      const std::vector<ScheduleStep>& steps) {
  if (!book.complete) return std::nullopt;
  Arrangement arrangement(book, known);
  if (!arrangement.add_around()) return std::nullopt;
  StepRuns runs(layout, book.overlaps);
  for (std::size_t at = 0; at < steps.size();) {
    const StepRun run = runs.next(steps, at);
    if (!arrangement.add(run)) return std::nullopt;
    at += run.steps.size();
  }
  if (!steps.empty()) arrangement.end_at(steps.back());
  if (!arrangement.add_around()) return std::nullopt;
  return arrangement.taken(known);
}

}  // namespace trainyard
