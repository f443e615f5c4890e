#include "sim/contention/group_calls.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainyard {

GroupCalls::GroupCalls(const Workload& workload, const ProgramAnalysis& analysis) {
  (void)number({});  // kNoCalls
  for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
    const ProgramCalls& calls = analysis.calls(program);
    std::vector<std::uint32_t>& lists = of_slot_.emplace_back();
    for (std::size_t slot = 0; slot < calls.slots(); ++slot)
      lists.push_back(number(calls.distinct_calls(slot)));
  }
  of_group_.assign(workload.groups.size(), kNoCalls);
  for (const Rank& rank : workload.ranks) {
    for (std::size_t slot = 0; slot < rank.slots.size(); ++slot) {
      if (rank.slots[slot].group == kNone || !uses(rank.program, slot)) continue;
      std::uint32_t& all = of_group_.at(rank.slots[slot].group);
      all = either(all, of_slot_[rank.program][slot]);
      ++bound_slots_;
    }
  }
}

std::uint32_t GroupCalls::number(std::vector<std::uint32_t> calls) {
  const auto next = static_cast<std::uint32_t>(lists_.size());
  const auto [entry, fresh] = numbers_.try_emplace(std::move(calls), next);
  if (fresh) lists_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t GroupCalls::either(std::uint32_t a, std::uint32_t b) {
  if (a == b || b == kNoCalls) return a;
  if (a == kNoCalls) return b;
  std::vector<std::uint32_t> calls;
  std::ranges::set_union(list(a), list(b), std::back_inserter(calls));
  return number(std::move(calls));
}

}  // namespace trainyard
