#include "sim/engine/program_calls.hpp"

#include <algorithm>
#include <unordered_map>

#include "sim/workload/call_sequences.hpp"

namespace trainyard {

ProgramCalls calls_of(const Program& program) {
  ProgramCalls result;
  result.collective_of.assign(program.operations.size(), kNone);
  result.place_in_slot.assign(program.operations.size(), kNone);
  std::unordered_map<std::uint64_t, std::uint32_t> known;  // by slot and call
  std::vector<std::uint32_t>
      last_of_slot;  // in result.collectives; a slot mostly does the same again
  OpIndex next = 0;
  for (const Operation& operation : program.operations) {
    const OpIndex op = next++;
    if (!communicates(operation.kind)) continue;
    const std::uint16_t slot = operation.slot;
    if (slot >= result.by_slot.size()) {
      result.by_slot.resize(slot + std::size_t{1});
      last_of_slot.resize(slot + std::size_t{1}, kNone);
    }
    std::vector<OpIndex>& calls = result.by_slot[slot];
    result.place_in_slot[op] = static_cast<std::uint32_t>(calls.size());
    calls.push_back(op);
    if (operation.kind != OpKind::Collective) continue;
    std::uint32_t& last = last_of_slot[slot];
    if (last == kNone || result.collectives[last].call != operation.payload) {
      const auto [entry, fresh] =
          known.try_emplace(std::uint64_t{slot} << 32U | operation.payload,
                            static_cast<std::uint32_t>(result.collectives.size()));
      if (fresh) result.collectives.push_back({slot, operation.payload});
      last = entry->second;
    }
    result.collective_of[op] = last;
  }
  return result;
}

}  // namespace trainyard
