#include "models/lower/program_passage.hpp"

#include <algorithm>

#include "models/lower/program_builder.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

std::size_t passage_with(std::span<const Passage> passages, OpIndex op) {
  const auto behind = std::ranges::upper_bound(passages, op, {}, &Passage::first);
  TY_CHECK(behind != passages.begin(), op);
  return static_cast<std::size_t>(behind - passages.begin()) - 1;
}

WrittenPassage ProgramBuilder::begin_passage(std::span<const OpIndex> named,
                                             std::optional<std::int32_t> beside) const {
  return {.begin = border(named),
          .part = tags_.part,
          .work = tags_.work,
          .microbatch = tags_.microbatch,
          .beside = beside.value_or(tags_.microbatch)};
}

// Of its microbatches, with effects of its own, and with inputs that the border knows.
bool ProgramBuilder::may_repeat(const WrittenPassage& passage) const {
  const BlockBorder& begin = passage.begin;
  if (begin.next == next()) return false;
  const auto known = [&](OpIndex op) { return begin.inside(op) != kNone; };
  const auto own = [&](const Operation& op) {
    const bool named = op.microbatch == passage.microbatch || op.microbatch == passage.beside;
    return named && std::ranges::all_of(dependencies_of(op), known);
  };
  return std::ranges::all_of(written_from(begin.next), own) && std::ranges::all_of(waits_, known) &&
         std::all_of(effects_.begin() + static_cast<std::ptrdiff_t>(begin.next_effect),
                     effects_.end(), [&](const auto& it) { return it.first >= begin.next; });
}

void ProgramBuilder::close_tail(OpIndex end) {
  if (tail_ == end) return;
  passages_.push_back({.first = tail_,
                       .count = end - tail_,
                       .written = static_cast<std::uint32_t>(tail_written_),
                       .model = static_cast<std::uint32_t>(passages_.size())});
  tail_written_ += end - tail_;
  tail_ = end;
}

// As Passage::base and its outside inputs say it.
OpIndex ProgramBuilder::written_input(WrittenPassage& passage, OpIndex op) {
  const OpIndex inside = passage.begin.inside(op);
  if (inside < kOutsideInput) return inside;
  const std::size_t which = inside - kOutsideInput;
  const auto known = std::ranges::find(passage.inputs, which);
  const auto place = static_cast<OpIndex>(known - passage.inputs.begin());
  if (known == passage.inputs.end()) {
    passage.inputs.push_back(which);
    outside_.push_back(op);
  }
  return kOutsideInput + place;
}

bool ProgramBuilder::end_passage(WrittenPassage& passage) {
  if (!may_repeat(passage)) return false;
  const OpIndex first = passage.begin.next;
  const OpIndex end = next();
  close_tail(first);
  passage.number = static_cast<std::uint32_t>(passages_.size());
  Passage written{.first = first,
                  .count = end - first,
                  .written = static_cast<std::uint32_t>(tail_written_),
                  .base = first,
                  .outside_begin = static_cast<std::uint32_t>(outside_.size()),
                  .model = passage.number};
  for (std::size_t i = operations_[written.written].dependencies_begin; i < dependencies_.size();
       ++i)
    dependencies_[i] = written_input(passage, dependencies_[i]);
  written.outside_end = static_cast<std::uint32_t>(outside_.size());
  passages_.push_back(written);
  own_effects_.push_back(
      {.passage = passage.number, .begin = passage.begin.next_effect, .end = effects_.size()});
  for (const OpIndex op : waits_) passage.waits.push_back(passage.begin.inside(op));
  for (std::size_t stream = 0; stream < last_on_stream_.size(); ++stream) {
    const OpIndex last = last_on_stream_[stream];
    if (last != kNone && last >= first)
      passage.last.emplace_back(static_cast<std::uint8_t>(stream), last - first);
  }
  tail_ = end;
  tail_written_ = operations_.size();
  return true;
}

bool ProgramBuilder::repeat(const WrittenPassage& passage, std::span<const OpIndex> named) {
  if (passage.part != tags_.part || passage.work != tags_.work) return false;
  const BlockBorder now = border(named);
  if (!passage.begin.alike(now)) return false;
  close_tail(now.next);
  Passage copy = passages_[passage.number];
  copy.first = copy.base = now.next;
  copy.later = tags_.microbatch - passage.microbatch;
  copy.outside_begin = static_cast<std::uint32_t>(outside_.size());
  for (const std::size_t which : passage.inputs) outside_.push_back(now.outside[which]);
  copy.outside_end = static_cast<std::uint32_t>(outside_.size());
  passages_.push_back(copy);
  tail_ = copy.end();
  for (const auto& [stream, offset] : passage.last) last_on_stream_[stream] = now.next + offset;
  waits_.clear();
  for (const OpIndex op : passage.waits) waits_.push_back(now.copied(op));
  return true;
}

}  // namespace trainyard
