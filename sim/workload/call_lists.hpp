// Lists of calls: what a program makes through each slot, and what a group's members make together.
//
// Many slots and groups have the same, so lists have numbers.
//
//   CallLists lists;
//   const std::uint32_t made = lists.both(lists.number({0, 2}), lists.number({1, 2}));
//   lists.list(made);   // {0, 1, 2}
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Calls a program makes through each of so many slots, ascending and distinct. REQUIRES: the
// program names no slot beyond them.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> slot_calls(const Program& program,
                                                                 std::size_t slots);

// Distinct lists of calls, by number.
class CallLists {
 public:
  // REQUIRES: ascending and distinct.
  [[nodiscard]] std::uint32_t number(std::vector<std::uint32_t> calls);
  // Of the calls that are in one of two lists.
  [[nodiscard]] std::uint32_t both(std::uint32_t a, std::uint32_t b);
  // Ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& list(std::uint32_t number) const {
    return *lists_[number];
  }

 private:
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
  std::vector<const std::vector<std::uint32_t>*> lists_;  // keys of numbers_
};

}  // namespace trainyard
