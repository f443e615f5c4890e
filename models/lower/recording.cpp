#include "models/lower/recording.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {
constexpr std::uint8_t kNoStream = 0xFF;
}  // namespace

// The operations that follow depend on the border in two ways. Dependencies on the own stream are
// omitted (OperationBlocks::append), so that streams matter. Equality matters, because
// ProgramBuilder::with_waits compares dependencies with the last computation, and because equal
// operations are one input of a block (OperationBlocks::close).
bool RecordingBorder::equivalent(const RecordingBorder& other) const {
  if (waits != other.waits || streams != other.streams) return false;
  for (std::size_t i = 0; i < outside.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if ((outside[i] == outside[j]) != (other.outside[i] == other.outside[j])) return false;
  return true;
}

OpIndex RecordingBorder::inside(OpIndex op) const {
  if (op >= next) return op - next;
  const auto named = std::ranges::find(outside, op);
  if (named == outside.end()) return kNone;
  return kBlockInput + static_cast<OpIndex>(named - outside.begin());
}

// ---- overlap

namespace {

// The interleaved order of [first, second) and [second, end), as old numbers.
//
// A greedy merge: it takes operations of one side until that side has issued a collective on the
// expert stream (a dispatch or combine), and then continues with the other side. The order within a
// side does not change. Operations of the second side may depend on the first side, but not the
// reverse, because the second side was written later. If the next operation of the second side
// waits for one of the first side that is not placed yet, the first side continues. Hence every
// operation comes after its dependencies. The cost is linear in operations and dependencies.
std::vector<OpIndex> overlapped(const OperationBlocks& operations, OpIndex first, OpIndex second) {
  const std::span<const Operation> written = operations.written_from(first);
  const OpIndex end = operations.next();
  std::vector<OpIndex> order;
  OpIndex a = first;
  OpIndex b = second;
  const auto needs_first_side = [&](OpIndex op) {
    return std::ranges::any_of(operations.dependencies_of(written[op - first]),
                               [&](OpIndex input) { return input >= a && input < second; });
  };
  for (bool second_goes_next = false; a < second || b < end;) {
    bool from_first = b == end || (a < second && !second_goes_next);
    if (!from_first && a < second && needs_first_side(b)) from_first = true;
    const OpIndex op = from_first ? a++ : b++;
    order.push_back(op);
    const Operation& it = written[op - first];
    if (it.kind == OpKind::Collective && it.stream == static_cast<std::uint8_t>(Stream::Expert))
      second_goes_next = from_first;
  }
  return order;
}

}  // namespace

void BlockRecorder::overlap(OpIndex first, OpIndex second) {
  OperationBlocks& operations = build_.operations();
  build_.memory().renumber(first, operations.reorder(first, overlapped(operations, first, second)));
}

// ---- blocks
//
// A closed block is a function of its border: its operations refer to each other and to operations
// in `outside`, by index. At an equivalent border the writers would therefore append the same
// operations, with the operations that are in `outside` there as inputs.

RecordingBorder BlockRecorder::border(std::span<const OpIndex> named,
                                      RecordingBorder storage) const {
  const OperationBlocks& operations = build_.operations();
  const std::vector<OpIndex>& waits = operations.waits();
  storage.next = operations.next();
  storage.next_effect = build_.memory().size();
  storage.waits = waits.size();
  storage.outside.assign(1, build_.last_compute());
  storage.outside.insert(storage.outside.end(), waits.begin(), waits.end());
  storage.outside.insert(storage.outside.end(), named.begin(), named.end());
  storage.streams.clear();
  for (const OpIndex op : storage.outside)
    storage.streams.push_back(op == kNone ? kNoStream : operations.stream_of(op));
  return storage;
}

RecordedBlock BlockRecorder::begin_block(RecordingBorder border,
                                         std::optional<std::int32_t> second_microbatch) const {
  const Tags& tags = build_.tags();
  return {.begin = std::move(border),
          .part = tags.part,
          .work = tags.work,
          .microbatch = tags.microbatch,
          .second_microbatch = second_microbatch.value_or(tags.microbatch)};
}

// A block is closed if its operations are tagged with its own microbatches, its memory effects
// belong to its own operations, and its border contains all its inputs, also those of the
// computation after it. REQUIRES: the operations of the block are open, all others are not.
bool BlockRecorder::is_closed(const RecordedBlock& block) const {
  const OperationBlocks& operations = build_.operations();
  const RecordingBorder& begin = block.begin;
  const auto known = [&](OpIndex op) { return begin.inside(op) != kNone; };
  const auto own = [&](const Operation& op) {
    const bool named = op.microbatch < 0 || op.microbatch == block.microbatch ||
                       op.microbatch == block.second_microbatch;
    return named && std::ranges::all_of(operations.dependencies_of(op), known);
  };
  return std::ranges::all_of(operations.written_from(begin.next), own) &&
         std::ranges::all_of(operations.waits(), known) &&
         build_.memory().begin_with(begin.next_effect, begin.next);
}

// The block is compared after it has been closed, because only then are its dependencies relative
// numbers, which are equal for equal blocks wherever they begin.
bool BlockRecorder::end_block(RecordedBlock& block, std::span<const std::uint32_t> known) {
  OperationBlocks& operations = build_.operations();
  const OpIndex first = block.begin.next;
  if (first == operations.next()) return false;
  // The open operations before the block become a block of their own.
  operations.close(first);
  block.closed = is_closed(block);
  const std::span<const OpIndex> last = operations.last_on_streams();
  for (std::size_t stream = 0; stream < last.size(); ++stream)
    if (last[stream] != kNone && last[stream] >= first)
      block.last.emplace_back(static_cast<std::uint8_t>(stream), last[stream] - first);
  if (block.closed)
    for (const OpIndex op : operations.waits()) block.waits.push_back(block.begin.inside(op));
  operations.close(operations.next());
  const OperationList::Content& content = operations.content();
  block.block = content.instances.back().block;
  microbatch_of_[block.block] = block.written_for = block.microbatch;
  build_.memory().record_block_effects(block.block, first, block.begin.next_effect);
  if (block.closed)
    for (std::size_t i = content.instances.back().bindings; i < content.bindings.size(); ++i)
      block.inputs.push_back(block.begin.inside(content.bindings[i]) - kBlockInput);
  for (const std::uint32_t other : known) {
    const std::int32_t later = block.microbatch - microbatch_of_.at(other);
    if (!same_block(block.block, other, later)) continue;
    build_.memory().drop(block.block);
    operations.become(other, later);
    block.block = other;
    block.written_for = microbatch_of_.at(other);
    break;
  }
  return true;
}

// Whether both blocks have equal operations, dependencies and memory effects, apart from the
// microbatch of the operations, which is `later` higher in the fresh one.
bool BlockRecorder::same_block(std::uint32_t fresh, std::uint32_t known, std::int32_t later) const {
  OperationBlocks& operations = build_.operations();
  const Block& a = operations.content().blocks[fresh];
  const Block& b = operations.content().blocks[known];
  if (a.inputs != b.inputs) return false;
  const auto same = [&](const Operation& own, const Operation& other) {
    const auto work = [](const Operation& op) {
      return std::tie(op.kind, op.stream, op.work, op.part, op.name, op.slot, op.payload, op.layer);
    };
    return work(own) == work(other) && own.microbatch == other.microbatch + later &&
           std::ranges::equal(operations.dependencies_of(own), operations.dependencies_of(other));
  };
  return std::ranges::equal(operations.operations_of(a), operations.operations_of(b), same) &&
         build_.memory().same(fresh, known);
}

// The block may be an instance of one that was written for another microbatch. The distance between
// its two microbatches is the same there.
bool BlockRecorder::tags_own_microbatches(const RecordedBlock& block) const {
  const OperationBlocks& operations = build_.operations();
  const std::int32_t second_microbatch =
      block.written_for + (block.second_microbatch - block.microbatch);
  return std::ranges::all_of(operations.operations_of(operations.content().blocks[block.block]),
                             [&](const Operation& op) {
                               return op.microbatch < 0 || op.microbatch == block.written_for ||
                                      op.microbatch == second_microbatch;
                             });
}

bool BlockRecorder::is_equivalent(const RecordedBlock& block, const RecordingBorder& now) const {
  const Tags& tags = build_.tags();
  return block.part == tags.part && block.work == tags.work && block.begin.equivalent(now);
}

bool BlockRecorder::instantiate(const RecordedBlock& block, const RecordingBorder& now) {
  if (!block.closed || !is_equivalent(block, now)) return false;
  inputs_.clear();
  for (const std::size_t which : block.inputs) inputs_.push_back(now.outside[which]);
  waits_.clear();
  for (const OpIndex op : block.waits) waits_.push_back(now.copied(op));
  add_instance(block, now, inputs_, waits_);
  return true;
}

void BlockRecorder::add_instance(const RecordedBlock& block, const RecordingBorder& now,
                                 std::span<const OpIndex> inputs, std::span<const OpIndex> waits) {
  OperationBlocks& operations = build_.operations();
  operations.close(now.next);
  operations.add_instance({.first = now.next,
                           .block = block.block,
                           .microbatch = build_.tags().microbatch - block.written_for},
                          inputs, block.last);
  operations.waits().assign(waits.begin(), waits.end());
}

}  // namespace trainyard
