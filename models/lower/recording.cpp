#include "models/lower/recording.hpp"

#include <algorithm>
#include <tuple>

#include "models/lower/program_builder.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {
constexpr std::uint8_t kNoStream = 0xFF;
}  // namespace

bool RecordingBorder::alike(const RecordingBorder& other) const {
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

RecordingBorder ProgramBuilder::border(std::span<const OpIndex> named) const {
  RecordingBorder border{.next = next(),
                         .next_effect = effects_.size(),
                         .outside = {last_compute()},
                         .waits = waits_.size()};
  border.outside.insert(border.outside.end(), waits_.begin(), waits_.end());
  border.outside.insert(border.outside.end(), named.begin(), named.end());
  for (const OpIndex op : border.outside)
    border.streams.push_back(op == kNone ? kNoStream : stream_of(op));
  return border;
}

void ProgramBuilder::wait_as(const RecordedBlock& recording, const RecordingBorder& now) {
  waits_.clear();
  for (const OpIndex op : recording.waits) waits_.push_back(now.copied(op));
}

RecordedBlock ProgramBuilder::begin_block(std::span<const OpIndex> named,
                                          std::optional<std::int32_t> beside) const {
  return {.begin = border(named),
          .part = tags_.part,
          .work = tags_.work,
          .microbatch = tags_.microbatch,
          .beside = beside.value_or(tags_.microbatch)};
}

// Its operations are of its microbatches, its effects are its own, and its border knows its inputs.
bool ProgramBuilder::is_closed(const RecordedBlock& block) const {
  const RecordingBorder& begin = block.begin;
  const auto known = [&](OpIndex op) { return begin.inside(op) != kNone; };
  const auto own = [&](const Operation& op) {
    const bool named = op.microbatch == block.microbatch || op.microbatch == block.beside;
    return named && std::ranges::all_of(dependencies_of(op), known);
  };
  return std::ranges::all_of(written_from(begin.next), own) && std::ranges::all_of(waits_, known) &&
         std::all_of(effects_.begin() + static_cast<std::ptrdiff_t>(begin.next_effect),
                     effects_.end(), [&](const auto& it) { return it.first >= begin.next; });
}

void ProgramBuilder::end_open(OpIndex end) {
  if (open_ == end) return;
  const Block block{.begin = static_cast<std::uint32_t>(open_written_), .count = end - open_};
  const Instance instance{.first = open_,
                          .block = static_cast<std::uint32_t>(blocks_.size()),
                          .bindings = static_cast<std::uint32_t>(bindings_.size())};
  blocks_.push_back(block);
  instances_.push_back(instance);
  written_blocks_.push_back({.first = open_});
  const auto bound = static_cast<std::ptrdiff_t>(instance.bindings);
  const Operation& last = operations_[open_written_ + (block.count - 1)];
  for (std::uint32_t i = operations_[open_written_].dependencies_begin; i < last.dependencies_end;
       ++i) {
    OpIndex& input = dependencies_[i];
    if (input >= open_) {
      input -= open_;
      continue;
    }
    const auto known = std::find(bindings_.begin() + bound, bindings_.end(), input);
    const auto number = static_cast<OpIndex>(known - bindings_.begin() - bound);
    if (known == bindings_.end()) bindings_.push_back(input);
    input = kBlockInput + number;
  }
  blocks_.back().inputs = static_cast<std::uint32_t>(bindings_.size()) - instance.bindings;
  open_written_ += block.count;
  open_ = end;
}

bool ProgramBuilder::end_block(RecordedBlock& block, std::span<const std::uint32_t> known) {
  const OpIndex first = block.begin.next;
  if (first == next()) return false;
  end_open(first);
  block.closed = is_closed(block);
  for (std::size_t stream = 0; stream < last_on_stream_.size(); ++stream) {
    const OpIndex last = last_on_stream_[stream];
    if (last != kNone && last >= first)
      block.last.emplace_back(static_cast<std::uint8_t>(stream), last - first);
  }
  if (block.closed)
    for (const OpIndex op : waits_) block.waits.push_back(block.begin.inside(op));
  end_open(next());
  block.block = instances_.back().block;
  written_blocks_.back().microbatch = block.microbatch;
  written_blocks_.back().effects_begin = block.begin.next_effect;
  written_blocks_.back().effects_end = effects_.size();
  if (block.closed)
    for (std::size_t i = instances_.back().bindings; i < bindings_.size(); ++i)
      block.inputs.push_back(block.begin.inside(bindings_[i]) - kBlockInput);
  for (const std::uint32_t other : known) {
    const std::int32_t later = block.microbatch - written_blocks_[other].microbatch;
    if (!same_block(block.block, other, later)) continue;
    become(other, later, first);
    block.block = other;
    break;
  }
  return true;
}

bool ProgramBuilder::same_block(std::uint32_t fresh, std::uint32_t known,
                                std::int32_t later) const {
  const Block& a = blocks_[fresh];
  const Block& b = blocks_[known];
  if (a.count != b.count || a.inputs != b.inputs) return false;
  for (OpIndex place = 0; place < a.count; ++place) {
    const Operation& own = operations_[a.begin + place];
    const Operation& other = operations_[b.begin + place];
    const auto work = [](const Operation& op) {
      return std::tie(op.kind, op.stream, op.work, op.part, op.name, op.slot, op.payload, op.layer);
    };
    if (work(own) != work(other) || own.microbatch != other.microbatch + later ||
        !std::ranges::equal(dependencies_of(own), dependencies_of(other)))
      return false;
  }
  return own_effects(fresh) == own_effects(known);
}

// Lists the effects of the block's own operations, by their places in the block.
std::vector<ProgramBuilder::Effect> ProgramBuilder::own_effects(std::uint32_t block) const {
  const WrittenBlock& written = written_blocks_[block];
  std::vector<Effect> own;
  for (std::size_t i = written.effects_begin; i < written.effects_end; ++i)
    if (effects_[i].first >= written.first)
      own.emplace_back(effects_[i].first - written.first, effects_[i].second);
  return own;
}

// The block that was written last is one that there was before.
void ProgramBuilder::become(std::uint32_t known, std::int32_t later, OpIndex first) {
  const Block& fresh = blocks_.back();
  const std::size_t effects = written_blocks_.back().effects_begin;
  dependencies_.resize(operations_[fresh.begin].dependencies_begin);
  operations_.resize(fresh.begin);
  open_written_ = fresh.begin;
  instances_.back().block = known;
  instances_.back().microbatch = later;
  std::erase_if(effects_, [&, i = std::size_t{0}](const auto& it) mutable {
    return i++ >= effects && it.first >= first;
  });
  settled_ = std::min(settled_, effects_.size());
  blocks_.pop_back();
  written_blocks_.pop_back();
}

std::optional<RecordingBorder> ProgramBuilder::instantiate(const RecordedBlock& block,
                                                           std::span<const OpIndex> named) {
  if (!block.closed || block.part != tags_.part || block.work != tags_.work) return std::nullopt;
  RecordingBorder now = border(named);
  if (!block.begin.alike(now)) return std::nullopt;
  end_open(now.next);
  instances_.push_back({.first = now.next,
                        .block = block.block,
                        .microbatch = tags_.microbatch - written_blocks_[block.block].microbatch,
                        .bindings = static_cast<std::uint32_t>(bindings_.size())});
  for (const std::size_t which : block.inputs) bindings_.push_back(now.outside[which]);
  open_ = now.next + blocks_[block.block].count;
  for (const auto& [stream, place] : block.last) last_on_stream_[stream] = now.next + place;
  wait_as(block, now);
  return now;
}

// Effects that came with a block are those of all its instances; one that came later is that of
// one instance alone.
void ProgramBuilder::place_effects() {
  std::vector<std::uint32_t> uses(blocks_.size(), 0);
  for (const Instance& instance : instances_) ++uses[instance.block];
  std::vector<std::vector<Effect>> of_block(blocks_.size());  // by place
  std::vector<bool> own(effects_.size(), false);
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    of_block[block] = own_effects(block);
    const WrittenBlock& written = written_blocks_[block];
    for (std::size_t i = written.effects_begin; i < written.effects_end; ++i)
      own[i] = effects_[i].first >= written.first;
  }
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    if (own[i]) continue;
    const auto& [op, effect] = effects_[i];
    const Instance& instance = instances_[instance_with(op)];
    if (uses[instance.block] == 1) {
      of_block[instance.block].emplace_back(op - instance.first, effect);
    } else {
      program_.further_effects.push_back(effects_[i]);
    }
  }
  std::ranges::stable_sort(program_.further_effects, {}, &Effect::first);
  for (std::uint32_t block = 0; block < blocks_.size(); ++block)
    write_effects(blocks_[block], std::move(of_block[block]));
}

void ProgramBuilder::write_effects(const Block& block, std::vector<Effect> effects) {
  std::ranges::stable_sort(effects, {}, &Effect::first);
  auto next = effects.begin();
  for (OpIndex place = 0; place < block.count; ++place) {
    Operation& op = operations_[block.begin + place];
    op.effects_begin = static_cast<std::uint32_t>(program_.effects.size());
    for (; next != effects.end() && next->first == place; ++next)
      program_.effects.push_back(next->second);
    op.effects_end = static_cast<std::uint32_t>(program_.effects.size());
  }
  TY_CHECK(next == effects.end(), block.begin, block.count);
}

std::size_t ProgramBuilder::instance_with(OpIndex op) const {
  const auto behind = std::ranges::upper_bound(instances_, op, {}, &Instance::first);
  TY_CHECK(behind != instances_.begin(), op);
  return static_cast<std::size_t>(behind - instances_.begin()) - 1;
}

}  // namespace trainyard
