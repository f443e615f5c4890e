#include "sim/workload/workload.hpp"

#include <algorithm>

namespace trainyard {

OpIndex Program::append(Operation op, std::span<const OpIndex> dependencies,
                        std::span<const MemoryEffect> its_effects) {
  op.effects_begin = static_cast<std::uint32_t>(effects.size());
  effects.insert(effects.end(), its_effects.begin(), its_effects.end());
  op.effects_end = static_cast<std::uint32_t>(effects.size());
  operations.push_back(op, dependencies);
  return static_cast<OpIndex>(operations.size() - 1);
}

std::vector<MemoryEffect> Program::effects_of(OpIndex op) const {
  const Operation& it = operations[op];
  std::vector<MemoryEffect> result(effects.begin() + it.effects_begin,
                                   effects.begin() + it.effects_end);
  const auto further =
      std::ranges::equal_range(single_effects, op, {}, &std::pair<OpIndex, MemoryEffect>::first);
  for (const auto& [number, effect] : further) result.push_back(effect);
  return result;
}

std::string chosen_field(const Workload& workload, GroupId group, const Call& call) {
  // The first member represents the group: its slots that lead to the group have the chosen fields.
  const std::vector<RankId>& members = workload.groups.at(group).members;
  if (members.empty()) return {};
  const std::vector<SlotBinding>& slots = workload.ranks.at(members.front()).slots;
  for (std::uint16_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot].group != group) continue;
    const auto chosen = workload.chosen_fields.find({slot, op_of(call)});
    if (chosen != workload.chosen_fields.end()) return chosen->second;
  }
  return {};
}

std::string_view to_string(GroupKind kind) {
  switch (kind) {
    case GroupKind::Tensor:
      return "tensor";
    case GroupKind::Pipeline:
      return "pipeline";
    case GroupKind::Data:
      return "data";
    case GroupKind::Expert:
      return "expert";
    case GroupKind::Context:
      return "context";
    case GroupKind::Host:
      return "host";
    case GroupKind::Other:
      return "other";
  }
  return "";
}

}  // namespace trainyard
