#include "models/lower/program_block.hpp"

#include <algorithm>

#include "models/lower/program_builder.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// The number in a block of an operation that it names.
OpIndex inside(const BlockBorder& begin, OpIndex op) {
  if (op >= begin.next) return op - begin.next;
  if (op == begin.last_compute) return ProgramBlock::kOutside;
  const auto wait = std::ranges::find(begin.waits, op);
  TY_CHECK(wait != begin.waits.end(), op, begin.next);
  return ProgramBlock::kOutside + 1 + static_cast<OpIndex>(wait - begin.waits.begin());
}

// What a number in a block stands for in a copy of it that begins at `now`.
OpIndex copied(const BlockBorder& now, OpIndex op) {
  if (op < ProgramBlock::kOutside) return now.next + op;
  if (op == ProgramBlock::kOutside) return now.last_compute;
  return now.waits[op - ProgramBlock::kOutside - 1];
}

}  // namespace

BlockBorder ProgramBuilder::border() const {
  BlockBorder border{.next = next(),
                     .next_effect = effects_.size(),
                     .last_compute = last_compute(),
                     .waits = waits_};
  for (const OpIndex op : waits_) border.streams.push_back(operations_[op].stream);
  return border;
}

ProgramBlock ProgramBuilder::begin_block() const {
  return {.begin = border(), .part = tags_.part, .work = tags_.work, .order = order_};
}

void ProgramBuilder::end_block(ProgramBlock& block) const {
  TY_CHECK(block.order == order_, block.order, order_);
  const BlockBorder& begin = block.begin;
  block.operations.assign(operations_.begin() + begin.next, operations_.end());
  for (Operation& op : block.operations) {
    const std::span<const OpIndex> inputs = dependencies_of(op);
    op.dependencies_begin = static_cast<std::uint32_t>(block.dependencies.size());
    for (const OpIndex input : inputs) block.dependencies.push_back(inside(begin, input));
    op.dependencies_end = static_cast<std::uint32_t>(block.dependencies.size());
  }
  for (std::size_t i = begin.next_effect; i < effects_.size(); ++i)
    block.effects.emplace_back(inside(begin, effects_[i].first), effects_[i].second);
  for (const OpIndex op : waits_) block.waits.push_back(inside(begin, op));
}

// Whether what stands before the next operation is, to what follows, as what stood before the
// block: on the same streams, and the same where the same was.
bool ProgramBuilder::follows_as(const ProgramBlock& block) const {
  const BlockBorder& then = block.begin;
  if (block.part != tags_.part || block.work != tags_.work) return false;
  if (then.waits.size() != waits_.size()) return false;
  if ((then.last_compute == kNone) != (last_compute() == kNone)) return false;
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (then.streams[i] != operations_[waits_[i]].stream) return false;
    if ((then.waits[i] == then.last_compute) != (waits_[i] == last_compute())) return false;
    for (std::size_t j = 0; j < i; ++j)
      if ((then.waits[i] == then.waits[j]) != (waits_[i] == waits_[j])) return false;
  }
  return true;
}

bool ProgramBuilder::repeat(const ProgramBlock& block) {
  if (!follows_as(block)) return false;
  const BlockBorder now = border();
  const auto inputs = static_cast<std::uint32_t>(dependencies_.size());
  for (const OpIndex input : block.dependencies) dependencies_.push_back(copied(now, input));
  operations_.insert(operations_.end(), block.operations.begin(), block.operations.end());
  for (OpIndex i = now.next; i < operations_.size(); ++i) {
    Operation& op = operations_[i];
    op.microbatch = tags_.microbatch;
    op.layer = tags_.layer;
    op.dependencies_begin += inputs;
    op.dependencies_end += inputs;
    last_on_stream_[op.stream] = i;
  }
  for (const auto& [op, effect] : block.effects) effects_.emplace_back(copied(now, op), effect);
  waits_.clear();
  for (const OpIndex op : block.waits) waits_.push_back(copied(now, op));
  return true;
}

}  // namespace trainyard
