#include "sim/engine/program_calls.hpp"

#include <algorithm>
#include <optional>

#include "sim/workload/call_sequences.hpp"

namespace trainyard {

ProgramCalls::ProgramCalls(const OperationList& operations)
    : operations_(operations),
      collective_(operations.written().size(), kNone),
      place_in_block_(operations.written().size(), kNone) {
  std::size_t slots = 0;
  for (const Operation& operation : operations.written())
    if (communicates(operation.kind)) slots = std::max<std::size_t>(slots, operation.slot + 1U);
  by_slot_.resize(slots);
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

}  // namespace trainyard
