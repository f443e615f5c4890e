#include "models/lower/program_block.hpp"

#include <algorithm>

#include "models/lower/program_builder.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {
constexpr std::uint8_t kNoStream = 0xFF;
}  // namespace

bool BlockBorder::alike(const BlockBorder& other) const {
  if (waits != other.waits || streams != other.streams) return false;
  for (std::size_t i = 0; i < outside.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if ((outside[i] == outside[j]) != (other.outside[i] == other.outside[j])) return false;
  return true;
}

OpIndex BlockBorder::inside(OpIndex op) const {
  if (op >= next) return op - next;
  const auto named = std::ranges::find(outside, op);
  if (named == outside.end()) return kNone;
  return kOutsideInput + static_cast<OpIndex>(named - outside.begin());
}

BlockBorder ProgramBuilder::border(std::span<const OpIndex> named) const {
  BlockBorder border{.next = next(),
                     .next_effect = effects_.size(),
                     .outside = {last_compute()},
                     .waits = waits_.size()};
  border.outside.insert(border.outside.end(), waits_.begin(), waits_.end());
  border.outside.insert(border.outside.end(), named.begin(), named.end());
  for (const OpIndex op : border.outside)
    border.streams.push_back(op == kNone ? kNoStream : stream_of(op));
  return border;
}

ProgramBlock ProgramBuilder::begin_block() const {
  return {.begin = border(), .part = tags_.part, .work = tags_.work, .order = order_};
}

void ProgramBuilder::end_block(ProgramBlock& block) const {
  TY_CHECK(block.order == order_, block.order, order_);
  const BlockBorder& begin = block.begin;
  const auto inside = [&](OpIndex op) {
    const OpIndex number = begin.inside(op);
    TY_CHECK(number != kNone, op, begin.next);
    return number;
  };
  const std::span<const Operation> written = written_from(begin.next);
  block.operations.assign(written.begin(), written.end());
  for (Operation& op : block.operations) {
    const std::span<const OpIndex> inputs = dependencies_of(op);
    op.dependencies_begin = static_cast<std::uint32_t>(block.dependencies.size());
    for (const OpIndex input : inputs) block.dependencies.push_back(inside(input));
    op.dependencies_end = static_cast<std::uint32_t>(block.dependencies.size());
  }
  for (std::size_t i = begin.next_effect; i < effects_.size(); ++i)
    block.effects.emplace_back(inside(effects_[i].first), effects_[i].second);
  for (const OpIndex op : waits_) block.waits.push_back(inside(op));
}

bool ProgramBuilder::repeat(const ProgramBlock& block) {
  if (block.part != tags_.part || block.work != tags_.work) return false;
  const BlockBorder now = border();
  if (!block.begin.alike(now)) return false;
  const auto inputs = static_cast<std::uint32_t>(dependencies_.size());
  for (const OpIndex input : block.dependencies) dependencies_.push_back(now.copied(input));
  operations_.insert(operations_.end(), block.operations.begin(), block.operations.end());
  OpIndex index = now.next;
  for (Operation& op : std::span(operations_).subspan(written_at(now.next))) {
    op.microbatch = tags_.microbatch;
    op.layer = tags_.layer;
    op.dependencies_begin += inputs;
    op.dependencies_end += inputs;
    last_on_stream_[op.stream] = index++;
  }
  for (const auto& [op, effect] : block.effects) effects_.emplace_back(now.copied(op), effect);
  waits_.clear();
  for (const OpIndex op : block.waits) waits_.push_back(now.copied(op));
  return true;
}

}  // namespace trainyard
