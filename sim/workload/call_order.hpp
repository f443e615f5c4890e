// Whether two slots of a program are ever in use at the same time.
//
// An operation surely ends before another starts when a path of stream order and dependencies leads
// from one to the other (program_order.hpp).
//
// Several threads may ask.
//
//   CallOrder order(workload);
//   if (order.ordered(program, tensor_slot, data_slot)) ...;   // their calls never overlap
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class CallOrder {
 public:
  explicit CallOrder(const Workload& workload);

  // True when of any two different operations, one on each slot, one ends before the other starts.
  // Of one slot with itself: when its calls follow one another.
  [[nodiscard]] bool ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b);

 private:
  // The communication of one slot on one stream, in order.
  struct Lane {
    std::size_t column = 0;  // of its stream in the program's order
    std::vector<OpIndex> operations;
    std::size_t columns = 0;    // of all streams
    std::vector<OpIndex> rows;  // [operation][column]: one past the last one it comes after

    [[nodiscard]] OpIndex after(std::size_t index, std::size_t other) const {
      return rows[index * columns + other];
    }
  };
  using Slots = std::map<std::uint16_t, std::vector<Lane>>;

  [[nodiscard]] static Slots slots_of(const Program& program, const ProgramOrder& order);
  static void write_rows(const ProgramOrder& order, Slots& slots);
  [[nodiscard]] static bool ordered(const Lane& a, const Lane& b);

  std::mutex mutex_;  // of what follows but for template_of_
  // Programs of one template have one order: that of the lowest of them, by whose number it goes.
  std::vector<std::uint32_t> template_of_;  // by program
  std::map<std::uint32_t, Slots> slots_;
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, bool> known_;
};

}  // namespace trainyard
