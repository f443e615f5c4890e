#include "sim/engine/program_calls.hpp"

#include <algorithm>
#include <unordered_map>

#include "sim/workload/call_sequences.hpp"

namespace trainyard {

namespace {

// What a program did last with a slot; it mostly does the same again.
struct LastUse {
  std::uint32_t collective = kNone;  // among ProgramCalls::collectives
  std::uint32_t stream = kNone;
};

}  // namespace

ProgramCalls calls_of(const Program& program) {
  ProgramCalls result;
  result.collective_of.assign(program.operations.size(), kNone);
  result.place_in_slot.assign(program.operations.size(), kNone);
  std::unordered_map<std::uint64_t, std::uint32_t> known;  // by slot and call
  std::vector<LastUse> last_of_slot;
  OpIndex next = 0;
  for (const Operation& operation : program.operations) {
    const OpIndex op = next++;
    if (!communicates(operation.kind)) continue;
    const std::uint16_t slot = operation.slot;
    if (slot >= result.by_slot.size()) {
      result.by_slot.resize(slot + std::size_t{1});
      last_of_slot.resize(slot + std::size_t{1});
    }
    std::vector<OpIndex>& calls = result.by_slot[slot];
    LastUse& last = last_of_slot[slot];
    result.place_in_slot[op] = static_cast<std::uint32_t>(calls.size());
    calls.push_back(op);
    if (last.stream != operation.stream) {
      last.stream = operation.stream;
      const auto same = [&](const ProgramCalls::Lane& lane) {
        return lane.slot == slot && lane.stream == operation.stream;
      };
      if (std::ranges::none_of(result.lanes, same))
        result.lanes.push_back({slot, operation.stream});
    }
    if (operation.kind != OpKind::Collective) continue;
    if (last.collective == kNone || result.collectives[last.collective].call != operation.payload) {
      const auto [entry, fresh] =
          known.try_emplace(std::uint64_t{slot} << 32U | operation.payload,
                            static_cast<std::uint32_t>(result.collectives.size()));
      if (fresh) result.collectives.push_back({slot, operation.payload});
      last.collective = entry->second;
    }
    result.collective_of[op] = last.collective;
  }
  return result;
}

}  // namespace trainyard
