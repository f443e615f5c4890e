// Which calls the members of each group make together, and through which of their slots ranks make
// any. Many groups make the same calls, so lists of calls have numbers.
//
//   const GroupCalls calls(workload, analysis);
//   calls.list(calls.of_group(group));   // {0, 2}: indices into Workload::calls
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class GroupCalls {
 public:
  // `analysis`: of the workload.
  GroupCalls(const Workload& workload, const ProgramAnalysis& analysis);

  // The number of the group's list. Groups with equal calls have equal numbers.
  [[nodiscard]] std::uint32_t of_group(GroupId group) const { return of_group_[group]; }
  // The calls of a list, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& list(std::uint32_t number) const {
    return *lists_[number];
  }
  // Whether the program calls through the slot.
  [[nodiscard]] bool uses(std::uint32_t program, std::size_t slot) const {
    return of_slot_[program].size() > slot && of_slot_[program][slot] != kNoCalls;
  }
  // How many slots ranks call through, over all ranks.
  [[nodiscard]] std::size_t bound_slots() const { return bound_slots_; }

 private:
  static constexpr std::uint32_t kNoCalls = 0;  // the number of the empty list

  [[nodiscard]] std::uint32_t number(std::vector<std::uint32_t> calls);
  // The number of the calls that are in one of two lists.
  [[nodiscard]] std::uint32_t either(std::uint32_t a, std::uint32_t b);

  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
  std::vector<const std::vector<std::uint32_t>*> lists_;  // keys of numbers_
  std::vector<std::vector<std::uint32_t>> of_slot_;       // [program][slot]
  std::vector<std::uint32_t> of_group_;
  std::size_t bound_slots_ = 0;
};

}  // namespace trainyard
