#include "models/lower/program_block.hpp"

#include <algorithm>

#include "models/lower/program_builder.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

BlockBorder ProgramBuilder::border() const {
  return {.next = next(),
          .next_effect = effects_.size(),
          .last_compute = last_compute(),
          .waits = waits_};
}

ProgramBlock ProgramBuilder::begin_block() const {
  return {.begin = border(), .end = {}, .part = tags_.part, .work = tags_.work, .order = order_};
}

void ProgramBuilder::end_block(ProgramBlock& block) const {
  TY_CHECK(block.order == order_, block.order, order_);
  block.end = border();
}

// Whether what stands before the next operation is, to what follows, as what stood before the
// block: on the same streams, and the same where the same was.
bool ProgramBuilder::follows_as(const ProgramBlock& block) const {
  const BlockBorder& then = block.begin;
  if (block.order != order_ || block.part != tags_.part || block.work != tags_.work) return false;
  if (then.waits.size() != waits_.size()) return false;
  if ((then.last_compute == kNone) != (last_compute() == kNone)) return false;
  const auto stream = [this](OpIndex op) { return operations_[op].stream; };
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (stream(then.waits[i]) != stream(waits_[i])) return false;
    if ((then.waits[i] == then.last_compute) != (waits_[i] == last_compute())) return false;
    for (std::size_t j = 0; j < i; ++j)
      if ((then.waits[i] == then.waits[j]) != (waits_[i] == waits_[j])) return false;
  }
  return true;
}

// What an operation that the block's operations name is to those of the copy; kNone for one that
// the block has no right to know.
OpIndex ProgramBuilder::copied(const ProgramBlock& block, const BlockBorder& now, OpIndex op) {
  if (op >= block.begin.next) return op - block.begin.next + now.next;
  if (op == block.begin.last_compute) return now.last_compute;
  const auto wait = std::ranges::find(block.begin.waits, op);
  if (wait == block.begin.waits.end()) return kNone;
  return now.waits[static_cast<std::size_t>(wait - block.begin.waits.begin())];
}

bool ProgramBuilder::repeat(const ProgramBlock& block) {
  if (!follows_as(block)) return false;
  const BlockBorder now = border();
  for (OpIndex i = block.begin.next; i < block.end.next; ++i) {
    Operation op = operations_[i];
    op.microbatch = tags_.microbatch;
    op.layer = tags_.layer;
    const std::uint32_t begin = op.dependencies_begin;
    const std::uint32_t end = op.dependencies_end;
    op.dependencies_begin = static_cast<std::uint32_t>(dependencies_.size());
    for (std::uint32_t input = begin; input < end; ++input) {
      const OpIndex before = copied(block, now, dependencies_[input]);
      TY_CHECK(before != kNone, i, dependencies_[input], block.begin.next);
      dependencies_.push_back(before);
    }
    op.dependencies_end = static_cast<std::uint32_t>(dependencies_.size());
    last_on_stream_[op.stream] = static_cast<OpIndex>(operations_.size());
    operations_.push_back(op);
  }
  for (std::size_t i = block.begin.next_effect; i < block.end.next_effect; ++i) {
    const auto [op, effect] = effects_[i];
    effects_.emplace_back(copied(block, now, op), effect);
  }
  waits_.clear();
  for (const OpIndex op : block.end.waits) waits_.push_back(copied(block, now, op));
  return true;
}

}  // namespace trainyard
