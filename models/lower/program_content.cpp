#include "models/lower/program_content.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

// ---- operations

void OperationBlocks::reserve(std::size_t operations, std::size_t dependencies) {
  content_.operations.reserve(operations);
  content_.dependencies.reserve(dependencies);
}

void OperationBlocks::begin_with(const OperationList& blocks) {
  content_ = blocks.content();
  content_.instances.clear();
  content_.bindings.clear();
  open_written_ = content_.operations.size();
}

OpIndex OperationBlocks::append(Operation op, std::span<const OpIndex> after) {
  std::vector<OpIndex>& dependencies = content_.dependencies;
  op.dependencies_begin = static_cast<std::uint32_t>(dependencies.size());
  for (const OpIndex input : after)
    if (input != kNone && stream_of(input) != op.stream) dependencies.push_back(input);
  op.dependencies_end = static_cast<std::uint32_t>(dependencies.size());
  const OpIndex index = next();
  content_.operations.push_back(op);
  last_on_stream_[op.stream] = index;
  return index;
}

// Dependencies of consecutive operations are stored one after the other, so that a permutation of
// the operations moves their ranges, too. Only operations from `first` on change their numbers.
std::vector<OpIndex> OperationBlocks::reorder(OpIndex first, const std::vector<OpIndex>& order) {
  TY_CHECK(first >= open_, first, open_);
  std::vector<OpIndex>& dependencies = content_.dependencies;
  std::vector<OpIndex> place(order.size());  // new number of operation first + i
  for (OpIndex i = 0; i < order.size(); ++i) place[order[i] - first] = first + i;
  const auto moved = [&](OpIndex op) { return op == kNone || op < first ? op : place[op - first]; };
  const std::span<Operation> rest =
      std::span(content_.operations).subspan(open_written_ + (first - open_));
  const std::vector<Operation> old(rest.begin(), rest.end());
  const std::size_t kept = order.empty() ? 0 : old.front().dependencies_begin;
  const std::vector<OpIndex> inputs(dependencies.begin() + static_cast<std::ptrdiff_t>(kept),
                                    dependencies.end());
  dependencies.resize(kept);
  for (OpIndex i = 0; i < order.size(); ++i) {
    Operation op = old[order[i] - first];
    const auto begin = static_cast<std::uint32_t>(dependencies.size());
    for (std::size_t input = op.dependencies_begin; input < op.dependencies_end; ++input)
      dependencies.push_back(moved(inputs[input - kept]));
    op.dependencies_begin = begin;
    op.dependencies_end = static_cast<std::uint32_t>(dependencies.size());
    rest[i] = op;
    last_on_stream_[op.stream] = first + i;
  }
  for (OpIndex& op : waits_) op = moved(op);
  return place;
}

std::uint8_t OperationBlocks::stream_of(OpIndex op) const {
  if (op >= open_) return written_from(op).front().stream;
  const Instance& instance = instance_of(op);
  return content_.operations[content_.blocks[instance.block].begin + (op - instance.first)].stream;
}

// Rewrites the dependencies of the new block to relative numbers. A dependency within the block
// becomes an index in the block. An earlier operation becomes an input of the block, which the
// first instance binds to that operation. Inputs are numbered in the order of their first use, so
// that blocks with equal operations have equal numbers. Several dependencies on one operation share
// an input. The search for it is linear, because blocks have few inputs.
void OperationBlocks::close(OpIndex end) {
  if (open_ == end) return;
  std::vector<OpIndex>& bindings = content_.bindings;
  const auto bound = static_cast<std::ptrdiff_t>(bindings.size());
  Block block{.begin = static_cast<std::uint32_t>(open_written_), .count = end - open_};
  content_.instances.push_back({.first = open_,
                                .block = static_cast<std::uint32_t>(content_.blocks.size()),
                                .bindings = static_cast<std::uint32_t>(bindings.size())});
  const std::span<const Operation> written = operations_of(block);
  for (std::uint32_t i = written.front().dependencies_begin; i < written.back().dependencies_end;
       ++i) {
    OpIndex& input = content_.dependencies[i];
    if (input >= open_) {
      input -= open_;
      continue;
    }
    const auto known = std::find(bindings.begin() + bound, bindings.end(), input);
    const auto number = static_cast<OpIndex>(known - bindings.begin() - bound);
    if (known == bindings.end()) bindings.push_back(input);
    input = kBlockInput + number;
  }
  block.inputs = static_cast<std::uint32_t>(std::ssize(bindings) - bound);
  content_.blocks.push_back(block);
  open_written_ += block.count;
  open_ = end;
}

// The bindings of the instance stay valid, because identical blocks number their inputs in the same
// order.
void OperationBlocks::become(std::uint32_t block, std::int32_t microbatch) {
  const Block& fresh = content_.blocks.back();
  content_.dependencies.resize(content_.operations[fresh.begin].dependencies_begin);
  content_.operations.resize(fresh.begin);
  open_written_ = fresh.begin;
  content_.instances.back().block = block;
  content_.instances.back().microbatch = microbatch;
  content_.blocks.pop_back();
}

void OperationBlocks::add_instance(const Instance& instance, std::span<const OpIndex> inputs,
                                   std::span<const std::pair<std::uint8_t, OpIndex>> last) {
  TY_CHECK(instance.first == open_ && next() == open_, instance.first, open_);
  content_.instances.push_back(instance);
  content_.instances.back().bindings = static_cast<std::uint32_t>(content_.bindings.size());
  content_.bindings.insert(content_.bindings.end(), inputs.begin(), inputs.end());
  open_ += content_.blocks[instance.block].count;
  for (const auto& [stream, place] : last) last_on_stream_[stream] = instance.first + place;
}

// A binary search over the first operations of instances. Most operations that are asked for are of
// one of the last two instances.
const Instance& OperationBlocks::instance_of(OpIndex op) const {
  const std::vector<Instance>& all = content_.instances;
  for (std::size_t back = 1; back <= std::min<std::size_t>(2, all.size()); ++back)
    if (all[all.size() - back].first <= op) return all[all.size() - back];
  const auto behind = std::ranges::upper_bound(content_.instances, op, {}, &Instance::first);
  TY_CHECK(behind != content_.instances.begin(), op);
  return *(behind - 1);
}

// ---- effects on memory
//
// Effects are appended in the order in which the writers add them. An effect that was added while a
// block was recorded belongs to the block, unless its operation comes before the block. A writer
// may add an effect to an operation of an earlier block, for example to free a buffer after the
// last operation that has read it. place() separates these two cases.

void MemoryEffects::allocate(OpIndex at_start_of, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  effects_.push_back(
      {at_start_of,
       {.category = static_cast<std::uint16_t>(category), .at_end = false, .bytes = bytes}});
}

void MemoryEffects::release(OpIndex at_end_of, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  effects_.push_back(
      {at_end_of,
       {.category = static_cast<std::uint16_t>(category), .at_end = true, .bytes = -bytes}});
}

void MemoryEffects::hold(Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  const auto number = static_cast<std::uint16_t>(category);
  const auto held = std::ranges::find(resident_, number, &ResidentMemory::category);
  if (held != resident_.end()) {
    held->bytes += bytes;
  } else {
    resident_.push_back({.category = number, .bytes = bytes});
  }
}

bool MemoryEffects::begin_with(std::size_t effect, OpIndex first) const {
  return std::all_of(effects_.begin() + static_cast<std::ptrdiff_t>(effect), effects_.end(),
                     [&](const Effect& it) { return it.first >= first; });
}

// Effects before settled_ already have final numbers: every later reordering starts behind the
// operations of the earlier ones.
void MemoryEffects::renumber(OpIndex first, std::span<const OpIndex> numbers) {
  for (; settled_ < effects_.size(); ++settled_) {
    OpIndex& op = effects_[settled_].first;
    if (op != kNone && op >= first) op = numbers[op - first];
  }
}

void MemoryEffects::record_block_effects(std::uint32_t block, OpIndex first, std::size_t effect) {
  ranges_.resize(block + std::size_t{1});
  ranges_[block] = {.first = first, .begin = effect, .end = effects_.size()};
}

bool MemoryEffects::all_of_blocks() const {
  std::ptrdiff_t owned = 0;
  for (const Range& range : ranges_)
    owned += std::count_if(effects_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                           effects_.begin() + static_cast<std::ptrdiff_t>(range.end),
                           [&](const Effect& effect) { return range.owns(effect); });
  return owned == std::ssize(effects_);
}

// An identical block has the same effects, so that those of the dropped block are redundant.
// Effects that it has added to operations of earlier blocks stay.
void MemoryEffects::drop(std::uint32_t block) {
  const Range range = ranges_[block];
  std::erase_if(effects_, [&, i = std::size_t{0}](const Effect& it) mutable {
    return i++ >= range.begin && range.owns(it);
  });
  settled_ = std::min(settled_, effects_.size());
  ranges_.resize(block);
}

// Lists the effects of the block's own operations, by the index of the operation in the block.
std::vector<MemoryEffects::Effect> MemoryEffects::own(std::uint32_t block) const {
  std::vector<Effect> own;
  if (block >= ranges_.size()) return own;
  const Range& range = ranges_[block];
  for (std::size_t i = range.begin; i < range.end; ++i)
    if (range.owns(effects_[i]))
      own.emplace_back(effects_[i].first - range.first, effects_[i].second);
  return own;
}

namespace {

// Appends the effects of a block to those of the program, in the order of the block's operations,
// and sets the ranges of effects of these operations. Effects of one operation keep their order.
void write_effects(std::span<Operation> operations,
                   std::vector<std::pair<OpIndex, MemoryEffect>> effects, Program& program) {
  std::ranges::stable_sort(effects, {}, &std::pair<OpIndex, MemoryEffect>::first);
  auto next = effects.begin();
  for (OpIndex place = 0; place < operations.size(); ++place) {
    operations[place].effects_begin = static_cast<std::uint32_t>(program.effects.size());
    for (; next != effects.end() && next->first == place; ++next)
      program.effects.push_back(next->second);
    operations[place].effects_end = static_cast<std::uint32_t>(program.effects.size());
  }
  TY_CHECK(next == effects.end(), operations.size());
}

}  // namespace

// Effects that belong to a block apply to all its instances. Any other effect applies to one
// operation of one instance. If its block has no other instance, it is written as an effect of the
// block; otherwise it goes to Program::single_effects.
void MemoryEffects::place(OperationBlocks& operations, Program& program) {
  const OperationList::Content& content = operations.content();
  std::vector<std::uint32_t> uses(content.blocks.size(), 0);
  for (const Instance& instance : content.instances) ++uses[instance.block];
  std::vector<std::vector<Effect>> of_block(content.blocks.size());  // by index in the block
  for (std::uint32_t block = 0; block < of_block.size(); ++block) of_block[block] = own(block);
  std::vector<bool> placed(effects_.size(), false);
  for (const Range& range : ranges_)
    for (std::size_t i = range.begin; i < range.end; ++i) placed[i] = range.owns(effects_[i]);
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    if (placed[i]) continue;
    const auto& [op, effect] = effects_[i];
    const Instance& instance = operations.instance_of(op);
    if (uses[instance.block] == 1) {
      of_block[instance.block].emplace_back(op - instance.first, effect);
    } else {
      program.single_effects.push_back(effects_[i]);
    }
  }
  std::ranges::stable_sort(program.single_effects, {}, &Effect::first);
  for (std::uint32_t block = 0; block < of_block.size(); ++block)
    write_effects(operations.operations_of(content.blocks[block]), std::move(of_block[block]),
                  program);
  program.resident = std::move(resident_);
}

}  // namespace trainyard
