#include "sim/workload/call_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

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

std::string describe(const Workload& workload, std::uint32_t program, OpIndex op) {
  const Program& it = workload.programs[program];
  return fmt::format("operation {} \"{}\" of program {} \"{}\"", op,
                     workload.names[it.operations[op].name], program, it.name);
}

CallSequences::CallSequences(const Workload& workload) : workload_(workload) {
  std::map<Call, std::uint32_t> lowest;
  for (std::uint32_t call = 0; call < workload.calls.size(); ++call) {
    equal_call_.push_back(lowest.try_emplace(workload.calls[call], call).first->second);
  }
  std::vector<std::vector<bool>> used;
  for (const Program& program : workload.programs) {
    std::vector<bool>& slots = used.emplace_back(workload.slots.size(), false);
    for (const SlotUse& use : slot_uses(program)) slots[use.slot] = true;
  }
  const std::uint32_t never = sequence_of(0, {});
  for (const Group& group : workload.groups) of_member_.emplace_back(group.members.size(), never);
  for (const Rank& rank : workload.ranks) {
    std::map<std::pair<GroupId, std::uint32_t>, std::vector<std::uint16_t>> slots_to;
    for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
      const auto [group, role] = rank.slots[slot];
      if (group != kNone && used[rank.program][slot]) slots_to[{group, role}].push_back(slot);
    }
    for (const auto& [place, slots] : slots_to) {
      of_member_[place.first][place.second] = sequence_of(rank.program, slots);
    }
  }
}

bool CallSequences::same_call(RankId a, OpIndex of_a, RankId b, OpIndex of_b) const {
  return meaning(workload_.ranks[a].program, of_a) == meaning(workload_.ranks[b].program, of_b);
}

std::pair<bool, std::uint32_t> CallSequences::meaning(std::uint32_t program, OpIndex op) const {
  const Operation& it = workload_.programs[program].operations[op];
  return {it.kind == OpKind::Collective, equal_call_[it.payload]};
}

std::uint32_t CallSequences::sequence_of(std::uint32_t program,
                                         const std::vector<std::uint16_t>& slots) {
  const auto [entry, fresh] =
      known_.try_emplace({program, slots}, static_cast<std::uint32_t>(sequences_.size()));
  if (!fresh) return entry->second;
  Sequence sequence;
  Content content;
  for (OpIndex i = 0; !slots.empty() && i < workload_.programs[program].operations.size(); ++i) {
    const Operation& op = workload_.programs[program].operations[i];
    if (!communicates(op.kind) || !std::ranges::binary_search(slots, op.slot)) continue;
    sequence.operations.push_back(i);
    content.push_back(meaning(program, i));
  }
  sequence.content =
      contents_.try_emplace(std::move(content), static_cast<std::uint32_t>(contents_.size()))
          .first->second;
  sequences_.push_back(std::move(sequence));
  return entry->second;
}

}  // namespace trainyard
