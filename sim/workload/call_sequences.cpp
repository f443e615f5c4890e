#include "sim/workload/call_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainyard {

std::string describe(const Workload& workload, std::uint32_t program, OpIndex op) {
  const Program& it = workload.programs[program];
  return fmt::format("operation {} \"{}\" of program {} \"{}\"", op,
                     workload.names[it.operations[op].name], program, it.name);
}

CallSequences::CallSequences(const Workload& workload) : workload_(workload) {
  // A file may list equal calls under several numbers. The lowest number stands for all of them.
  std::map<Call, std::uint32_t> lowest;
  for (std::uint32_t call = 0; call < workload.calls.size(); ++call) {
    equal_call_.push_back(lowest.try_emplace(workload.calls[call], call).first->second);
  }
  std::vector<ProgramCalls> calls;
  for (const Program& program : workload.programs) calls.emplace_back(program.operations);
  sequences_.emplace_back();  // sequence 0: members without calls
  contents_.emplace(Content{}, 0);
  for (const Group& group : workload.groups) of_member_.emplace_back(group.members.size(), 0);
  for (const Rank& rank : workload.ranks) {
    // Several slots of a rank may lead to the same group; their calls are merged in issue order.
    std::map<std::pair<GroupId, std::uint32_t>, std::vector<std::uint16_t>> slots_to;
    for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
      const auto [group, group_rank] = rank.slots[slot];
      if (group == kNone || slot >= calls[rank.program].slots()) continue;
      if (!calls[rank.program].by_slot(slot).empty()) slots_to[{group, group_rank}].push_back(slot);
    }
    for (const auto& [place, slots] : slots_to) {
      of_member_[place.first][place.second] = sequence_of(rank.program, calls[rank.program], slots);
    }
  }
}

// Whether two operations are the same call, for the message about the first difference.
bool CallSequences::same_call(RankId a, OpIndex of_a, RankId b, OpIndex of_b) const {
  return meaning(workload_.ranks[a].program, of_a) == meaning(workload_.ranks[b].program, of_b);
}

// The kind (collective or message) and the call decide whether two operations match. A Send and a
// Recv of equal calls match.
std::pair<bool, std::uint32_t> CallSequences::meaning(std::uint32_t program, OpIndex op) const {
  const Operation& it = workload_.programs[program].operations[op];
  return {it.kind == OpKind::Collective, equal_call_[it.payload]};
}

// Ranks that run one program through the same slots share a sequence. Equal contents of different
// sequences get one number, so equal_sequences() compares two integers.
std::uint32_t CallSequences::sequence_of(std::uint32_t program, const ProgramCalls& calls,
                                         const std::vector<std::uint16_t>& slots) {
  const auto [entry, fresh] =
      known_.try_emplace({program, slots}, static_cast<std::uint32_t>(sequences_.size()));
  if (!fresh) return entry->second;
  Sequence sequence;
  for (const std::uint16_t slot : slots) {
    std::vector<OpIndex> merged;
    std::ranges::merge(sequence.operations, calls.by_slot(slot), std::back_inserter(merged));
    sequence.operations = std::move(merged);
  }
  Content content;
  for (const OpIndex op : sequence.operations) content.push_back(meaning(program, op));
  sequence.content =
      contents_.try_emplace(std::move(content), static_cast<std::uint32_t>(contents_.size()))
          .first->second;
  sequences_.push_back(std::move(sequence));
  return entry->second;
}

}  // namespace trainyard
