#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "models/expert_routing.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// Blocks that are stored for runs of one kind. The borders of such runs have few forms: with or
// without a message under way, after another step of the same kind or not. The limit bounds the
// search; the oldest block is dropped first.
constexpr std::size_t kMaxBlocksPerKind = 8;

std::string program_name(const PipelineOptions& pipeline, const StagePlace& place) {
  if (pipeline.ring_programs == 1) return fmt::format("stage {}", place.stage);
  return fmt::format("stage {} ring {}", place.stage, place.ring_position);
}

StepShape shape_at(const StepShape& anywhere, const StagePlace& place) {
  StepShape shape = anywhere;
  shape.ring_position = place.ring_position;
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

// The operation that a relative number (RecordingBorder::inside) means for a block that begins at
// `now`.
OpIndex operation_at(OpIndex inside, const RecordingBorder& now) {
  return inside == kNone ? kNone : now.copied(inside);
}

StageMessages::Ended ended_of(const StepBlock& block, const RecordingBorder& now) {
  return {operation_at(block.ended.before, now), operation_at(block.ended.latest, now)};
}

}  // namespace

// ---- writing
//
// Every run of steps becomes one block or one more instance of a known block. There are two ways to
// find the known block:
// - before writing: only its border and the state of the data-parallel scheme distinguish a
//   repeatable run from other runs of its kind. If a stored block begins at an equivalent border
//   and with the same state, the run is an instance of it, and none of its layers is lowered. A run
//   is repeatable if microbatches do not differ and no step is the first or last of its chunk.
// - after writing: a run that had to be written may still be identical to a stored block.
//   BlockRecorder::end_block compares them and keeps one copy.
// Both are exact: the program is the same as with every microbatch written out
// (tests/models/lower/recorded_block_test.cpp).
//
// The book collects all blocks for arranged(). It becomes incomplete as soon as one block depends
// on more than its kind, its border and earlier single blocks.

StageLowering::StageLowering(const LoweringOptions& options, const PipelineOptions& pipeline,
                             const StagePlace& place, Interner& interner)
    : shape_(shape_at(options.shape, place)),
      layout_(pipeline, place.stage),
      build_(interner, program_name(pipeline, place), static_cast<std::uint32_t>(place.stage)),
      recorder_(build_),
      writer_({options, shape_, layout_, build_}),
      microbatches_differ_(pipeline.microbatches_differ ||
                           (place.routing != nullptr && place.routing->by_microbatch())) {
  book_.overlaps = pipeline.overlaps_steps;
  book_.names_steps = writer_.messages().receives_name_steps();
  book_.complete = !microbatches_differ_ && writer_.replicas().ignores_repeated_steps();
}

Program StageLowering::lower(const std::vector<ScheduleStep>& steps) {
  book_.complete = book_.complete && repeats_;
  write_outside_steps([this] { writer_.begin(); });
  StepRuns runs(layout_, book_.overlaps);
  for (std::size_t at = 0; at < steps.size();) {
    const StepRun run = runs.next(steps, at);
    write_run(run);
    at += run.steps.size();
  }
  step_begins_.push_back(build_.next());
  // The operations after the last step start with its tags, as Arrangement::end_at assumes.
  if (!steps.empty() && build_.tags().microbatch != steps.back().microbatch) book_.complete = false;
  write_outside_steps([this] { writer_.end(); });
  if (!build_.memory().all_of_blocks()) book_.complete = false;
  if (!book_.complete) book_ = {};
  return build_.take();
}

// Writes the operations before the first step or after the last one, as a single block.
void StageLowering::write_outside_steps(const std::function<void()>& write) {
  SingleBlock block{{recorder_.begin_block(border({}))}};
  write();
  if (repeats_ && recorder_.end_block(block, {})) record_single(std::move(block));
}

// Adds a run as an instance of a known block if possible, otherwise writes its operations.
void StageLowering::write_run(const StepRun& run) {
  build_.tag(tags_of(run));
  const std::optional<ReplicaState> replicas = writer_.replicas().state();
  const bool repeatable = replicas && !microbatches_differ_ && !run.not_repeatable;
  RecordingBorder now = border(replicas.value_or(ReplicaState{}));
  std::vector<StepBlock>& written = book_.blocks[run.kind];
  if (repeatable && repeats_ && instantiated(written, now, *replicas)) return;
  SingleBlock fresh{{recorder_.begin_block(std::move(now), run.steps.back().microbatch)}};
  if (replicas) fresh.replica_values = replicas->values;
  write_out(run, fresh);
  if (!repeats_) return;
  std::vector<std::uint32_t> known;
  for (const StepBlock& one : written) known.push_back(one.block);
  // A run without operations, such as the backward of a chunk that has none, has no block to book.
  if (!recorder_.end_block(fresh, known)) {
    book_.complete = false;
    return;
  }
  // The block of a run that is not repeatable stays in the list for comparisons in end_block, but
  // is never instantiated.
  fresh.closed = fresh.closed && repeatable && fresh.replicas;
  if (written.size() == kMaxBlocksPerKind) written.erase(written.begin());
  written.push_back(fresh);
  if (repeatable) return;
  fresh.kind = run.kind;
  fresh.turns = run.turns;
  record_single(std::move(fresh));
}

// Returns true if a block of `written` has become the next instance. Restores the state that the
// writers would have after the run: the begins of its steps, the last operations of steps, and what
// the data-parallel scheme remembers.
bool StageLowering::instantiated(const std::vector<StepBlock>& written, const RecordingBorder& now,
                                 const ReplicaState& replicas) {
  for (const StepBlock& known : written) {
    if (known.replica_values != replicas.values || !recorder_.instantiate(known, now)) continue;
    ReplicaState after = *known.replicas;
    for (OpIndex& op : after.operations) op = operation_at(op, now);
    writer_.replicas().restore(after);
    for (const OpIndex at : known.step_begins) step_begins_.push_back(operation_at(at, now));
    writer_.messages().set_ended(ended_of(known, now));
    return true;
  }
  return false;
}

// Writes the operations of a run. Two overlapped steps are written one after the other and then
// interleaved, so that both begin with the first operation of the pair.
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
  block.replicas = writer_.replicas().state();
  if (!block.replicas) return;
  for (OpIndex& op : block.replicas->operations) {
    const OpIndex before = std::exchange(op, inside(op));
    TY_CHECK(before == kNone || op != kNone, before);
  }
}

// Without overlap, receives are posted after an operation of an earlier step, so that blocks may
// refer to it. With overlap, blocks do not refer to earlier steps.
RecordingBorder StageLowering::border(const ReplicaState& replicas) {
  const StageMessages::Ended& ended = writer_.messages().ended();
  std::vector<OpIndex> named;
  if (book_.names_steps) named = {ended.before, ended.latest};
  named.insert(named.end(), replicas.operations.begin(), replicas.operations.end());
  return recorder_.border(named);
}

// Puts the block that has just ended into the book, with references from which arranged() finds its
// inputs in a longer or shorter program.
void StageLowering::record_single(SingleBlock single) {
  if (!book_.complete) return;
  const OperationBlocks& operations = build_.operations();
  const Instance& instance = operations.content().instances.back();
  const std::span<const OpIndex> inputs =
      std::span(operations.content().bindings).subspan(instance.bindings);
  single_begins_.push_back(instance.first);
  for (const OpIndex op : inputs) single.named_inputs.push_back(named(op, single.begin));
  for (const OpIndex op : operations.waits()) single.named_waits.push_back(named(op, single.begin));
  // An instance adds one offset to the microbatches of all operations. This is wrong for operations
  // that are tagged with a microbatch that is not the block's.
  if (!recorder_.tags_own_microbatches(single)) book_.complete = false;
  book_.singles.push_back(std::move(single));
}

// Describes `op` by its index at the border and by its position in an earlier single block. In a
// program for another number of microbatches, operations of repeated blocks have other numbers and
// no other description.
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
//
// Arranging replays the decisions of StageLowering::lower for another list of steps, without
// lowering any layer. Each run takes the next single block, or a block of its kind with an
// equivalent border, and the instances bind the inputs of the new program. Blocks, kernels and
// calls are shared with the known program. The result equals that of lower(), or there is none
// (tests/models/lower/rearranged_test.cpp). The cost is proportional to the number of runs and does
// not depend on the number of operations in a run.

namespace {

// Builds the operation list of a schedule as instances of the blocks in a book. The functions that
// return bool return false if the schedule needs another block.
class Arrangement {
 public:
  Arrangement(const BlockCatalogue& book, const OperationList& known)
      : book_(book), interner_(scratch_), build_(interner_, {}, 0), recorder_(build_) {
    build_.operations().begin_with(known);
  }

  // Adds the operations before the first step or after the last one. The book has no single block
  // for them if there are none.
  bool add_around() {
    const bool any =
        next_single_ < book_.singles.size() && book_.singles[next_single_].kind.steps.empty();
    return !any || add_single({}, border());
  }

  // Sets the tags that the writers leave after the last step. The border of the block after all
  // steps is compared with them.
  void end_at(const ScheduleStep& last) {
    Tags tags = build_.tags();
    tags.microbatch = last.microbatch;
    tags.part = last.kind == StepKind::Forward ? StepPart::Forward : StepPart::Backward;
    build_.tag(tags);
  }

  bool add(const StepRun& run) {
    build_.tag(tags_of(run));
    now_ = border(std::move(now_));
    if (run.not_repeatable) return add_single(run, now_);
    const auto blocks = book_.blocks.find(run.kind);
    if (blocks == book_.blocks.end()) return false;
    const auto known = std::ranges::find_if(
        blocks->second, [&](const StepBlock& block) { return recorder_.instantiate(block, now_); });
    if (known == blocks->second.end()) return false;
    ended_ = ended_of(*known, now_);
    return true;
  }

  // Returns the list. Blocks are numbered in the order in which they are written, so that lower()
  // gives the same numbers only if first instances come in the order of the blocks. Returns nullopt
  // if they do not, or if a block or a single block is left over.
  [[nodiscard]] std::optional<OperationList> take_list(const OperationList& known) {
    if (next_single_ != book_.singles.size()) return std::nullopt;
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
  // The border at the current position, as StageLowering::border gives it.
  [[nodiscard]] RecordingBorder border(RecordingBorder storage = {}) const {
    const std::array named{ended_.before, ended_.latest};
    return recorder_.border(std::span(named).first(book_.names_steps ? named.size() : 0),
                            std::move(storage));
  }

  bool add_single(const StepRun& run, const RecordingBorder& now) {
    if (next_single_ == book_.singles.size()) return false;
    const SingleBlock& single = book_.singles[next_single_++];
    if (single.kind != run.kind || single.turns != run.turns ||
        !recorder_.is_equivalent(single, now))
      return false;
    begins_.push_back(now.next);
    std::vector<OpIndex> inputs;
    std::vector<OpIndex> waits;
    if (!find(single.named_inputs, now, inputs) || !find(single.named_waits, now, waits))
      return false;
    recorder_.add_instance(single, now, inputs, waits);
    ended_ = ended_of(single, now);
    return true;
  }

  // Finds the operations of references in the new program. Returns false if the two descriptions of
  // a reference lead to different operations, since it is unknown which one the writers would use.
  [[nodiscard]] bool find(std::span<const SingleBlock::Named> named, const RecordingBorder& now,
                          std::vector<OpIndex>& found) const {
    for (const SingleBlock::Named& one : named) {
      const OpIndex inside = operation_at(one.inside, now);
      const OpIndex remembered = one.single == kNone ? inside : begins_[one.single] + one.place;
      if (inside != kNone && inside != remembered) return false;
      found.push_back(remembered);
    }
    return true;
  }

  const BlockCatalogue& book_;
  Workload scratch_;  // stays empty: the builder needs one, but arranging adds no names or kernels
  Interner interner_;
  ProgramBuilder build_;
  BlockRecorder recorder_;
  StageMessages::Ended ended_;
  RecordingBorder now_;          // of the run that was added last
  std::size_t next_single_ = 0;  // number of single blocks that have been added
  std::vector<OpIndex> begins_;  // their first operations
};

}  // namespace

std::optional<OperationList> arranged(const BlockCatalogue& book, const OperationList& known,
                                      const StageLayout& layout,
                                      const std::vector<ScheduleStep>& steps) {
  if (!book.complete) return std::nullopt;
  Arrangement arrangement(book, known);
  if (!arrangement.add_around()) return std::nullopt;
  StepRuns runs(layout, book.overlaps);
  StepRun run;
  for (std::size_t at = 0; at < steps.size(); at += run.steps.size()) {
    run = runs.next(steps, at, std::move(run));
    if (!arrangement.add(run)) return std::nullopt;
  }
  if (!steps.empty()) arrangement.end_at(steps.back());
  if (!arrangement.add_around()) return std::nullopt;
  return arrangement.take_list(known);
}

}  // namespace trainyard
