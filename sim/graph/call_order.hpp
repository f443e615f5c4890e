// Whether two slots of a program are ever in use at the same time.
//
// An operation surely ends before another starts when a path of stream order and dependencies leads
// from one to the other (program_order.hpp).
//
//   CallOrder order(workload);
//   if (order.ordered(program, tensor_slot, data_slot)) ...;   // their calls never overlap
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/graph/program_order.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

class CallOrder {
 public:
  explicit CallOrder(const Workload& workload);

  // True when of any two different operations, one on each slot, one ends before the other starts.
  // Of one slot with itself: when its calls follow one another.
  [[nodiscard]] bool ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b);

  // What comes before what in a program, if it was kept: it is given away, for all programs of its
  // form. Orders of many programs are not kept, for they take more room than all else.
  [[nodiscard]] std::optional<ProgramOrder> take_order(std::uint32_t program);

 private:
  // The communication of one slot on one stream, in order.
  struct Lane {
    std::size_t column = 0;   // of its stream in the program's order
    std::size_t columns = 0;  // of all streams
    std::vector<OpIndex> operations;
    std::vector<OpIndex> after;  // [operation][column]: one past the last operation it comes after
  };
  using Slots = std::map<std::uint16_t, std::vector<Lane>>;

  [[nodiscard]] static Slots slots_of(const Program& program, const ProgramOrder& order);
  [[nodiscard]] static bool ordered(const Lane& a, const Lane& b);

  // Programs of one form have one order: that of the lowest of them, by whose number it goes.
  std::vector<std::uint32_t> form_of_;  // by program
  std::map<std::uint32_t, Slots> forms_;
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, bool> known_;
  std::map<std::uint32_t, std::optional<ProgramOrder>> orders_;
};

}  // namespace trainyard
