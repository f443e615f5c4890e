#include "sim/workload/program_calls.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/workload/workload.hpp"

namespace trainyard {

ProgramCalls::ProgramCalls(const OperationList& operations)
    : operations_(operations),
      collective_(operations.written().size(), kNone),
      place_in_block_(operations.written().size(), kNone) {
  std::size_t slots = 0;
  for (const Operation& operation : operations.written())
    if (communicates(operation.kind)) slots = std::max<std::size_t>(slots, operation.slot + 1U);
  by_slot_.resize(slots);
  distinct_calls_.resize(slots);
  on_one_stream_.assign(slots, true);
  std::vector<std::optional<std::uint8_t>> stream_of(slots);
  for (const Operation& operation : operations.written()) {
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
  std::vector<std::optional<std::vector<BlockCall>>> known(operations.blocks().size());
  for (const Instance& instance : operations.instances()) {
    std::optional<std::vector<BlockCall>>& calls = known[instance.block];
    if (!calls) calls = read_block(operations.block_of(instance));
    for (const std::vector<OpIndex>& made : by_slot_)
      calls_before_.push_back(static_cast<std::uint32_t>(made.size()));
    for (const BlockCall& call : *calls) by_slot_[call.slot].push_back(instance.first + call.place);
  }
}

std::vector<ProgramCalls::BlockCall> ProgramCalls::read_block(const Block& block) {
  std::vector<BlockCall> calls;
  std::vector<std::uint32_t> made(by_slot_.size(), 0);
  for (OpIndex place = 0; place < block.count; ++place) {
    const OpIndex written = block.begin + place;
    const Operation& operation = operations_.written()[written];
    if (!communicates(operation.kind)) continue;
    calls.push_back({operation.slot, place});
    place_in_block_[written] = made[operation.slot]++;
    if (operation.kind == OpKind::Collective) collective_[written] = collective(operation);
  }
  return calls;
}

std::uint32_t ProgramCalls::collective(const Operation& operation) {
  const auto known = std::ranges::find_if(collectives_, [&](const Collective& other) {
    return other.slot == operation.slot && other.call == operation.payload;
  });
  const auto number = static_cast<std::uint32_t>(known - collectives_.begin());
  if (known == collectives_.end()) collectives_.push_back({operation.slot, operation.payload});
  return number;
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
