#include "sim/workload/program_calls.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sim/workload/workload.hpp"

namespace trainyard {

// ---- of blocks

BlockCalls::BlockCalls(const OperationList& list)
    : ordinal_(list.written().size(), kNone), collective_(list.written().size(), kNone) {
  const std::span<const Operation> written = list.written();
  read_slots(written);
  for (const Block& block : list.blocks()) read_block(block, written);
  begin_.push_back(places_.size());
}

// Makes one pass over all operations: the number of slots, the distinct calls of each slot, and
// whether its operations are on one stream.
void BlockCalls::read_slots(std::span<const Operation> written) {
  for (const Operation& operation : written)
    if (communicates(operation.kind)) slots_ = std::max<std::size_t>(slots_, operation.slot + 1U);
  distinct_calls_.resize(slots_);
  on_one_stream_.assign(slots_, true);
  std::vector<std::optional<std::uint8_t>> stream_of(slots_);
  for (const Operation& operation : written) {
    if (!communicates(operation.kind)) continue;
    distinct_calls_[operation.slot].push_back(operation.payload);
    std::optional<std::uint8_t>& stream = stream_of[operation.slot];
    if (!stream) stream = operation.stream;
    if (*stream != operation.stream) on_one_stream_[operation.slot] = false;
  }
  for (std::vector<std::uint32_t>& calls : distinct_calls_) {
    std::ranges::sort(calls);
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  }
}

// Lists the communications of a block by slot (a CSR over blocks and slots) and numbers them.
void BlockCalls::read_block(const Block& block, std::span<const Operation> written) {
  std::vector<std::vector<OpIndex>> by_slot(slots_);
  for (OpIndex place = 0; place < block.count; ++place) {
    const Operation& operation = written[block.begin + place];
    if (!communicates(operation.kind)) continue;
    std::vector<OpIndex>& places = by_slot[operation.slot];
    ordinal_[block.begin + place] = static_cast<std::uint32_t>(places.size());
    places.push_back(place);
    if (operation.kind == OpKind::Collective)
      collective_[block.begin + place] = collective(operation);
  }
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    begin_.push_back(places_.size());
    places_.insert(places_.end(), by_slot[slot].begin(), by_slot[slot].end());
    if (!by_slot[slot].empty()) used_.push_back(static_cast<std::uint16_t>(slot));
  }
  used_begin_.push_back(used_.size());
}

// A program has few distinct pairs, so a linear search is enough.
std::uint32_t BlockCalls::collective(const Operation& operation) {
  const auto known = std::ranges::find_if(collectives_, [&](const Collective& other) {
    return other.slot == operation.slot && other.call == operation.payload;
  });
  const auto number = static_cast<std::uint32_t>(known - collectives_.begin());
  if (known == collectives_.end()) collectives_.push_back({operation.slot, operation.payload});
  return number;
}

// ---- of programs

ProgramCalls::ProgramCalls(const OperationList& operations,
                           std::shared_ptr<const BlockCalls> blocks)
    : operations_(operations), blocks_(std::move(blocks)) {
  if (!blocks_) blocks_ = std::make_shared<const BlockCalls>(operations);
  const std::size_t slots = blocks_->slots();
  const std::span<const Instance> instances = operations.instances();
  calls_before_.reserve(instances.size() * slots);
  // The ordinal of a call is its ordinal in the block plus the calls that earlier instances made
  // through the slot. A prefix sum over the instances gives these.
  std::vector<std::uint32_t> made(slots, 0);
  for (const Instance& instance : instances) {
    calls_before_.insert(calls_before_.end(), made.begin(), made.end());
    for (const std::uint16_t slot : blocks_->slots_of(instance.block))
      made[slot] += static_cast<std::uint32_t>(blocks_->places(instance.block, slot).size());
  }
  by_slot_.resize(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) by_slot_[slot].reserve(made[slot]);
  for (const Instance& instance : instances) {
    for (const std::uint16_t slot : blocks_->slots_of(instance.block)) {
      const std::span<const OpIndex> places = blocks_->places(instance.block, slot);
      std::vector<OpIndex>& calls = by_slot_[slot];
      const auto begin = calls.insert(calls.end(), places.begin(), places.end());
      for (OpIndex& call : std::span(begin, calls.end())) call += instance.first;
    }
  }
}

std::vector<SlotUse> slot_uses(const Program& program) {
  std::map<std::uint16_t, SlotUse> uses;
  OpIndex next = 0;
  for (const Operation& op : program.operations) {
    const OpIndex i = next++;
    if (!communicates(op.kind)) continue;
    SlotUse& use = uses.try_emplace(op.slot, SlotUse{.slot = op.slot, .first = i}).first->second;
    use.sends = use.sends || op.kind == OpKind::Send;
    use.receives = use.receives || op.kind == OpKind::Recv;
  }
  std::vector<SlotUse> result;
  for (const auto& [slot, use] : uses) result.push_back(use);
  return result;
}

}  // namespace trainyard
