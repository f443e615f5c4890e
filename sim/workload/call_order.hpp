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
#include <optional>
#include <tuple>
#include <vector>

#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class CallOrder {
 public:
  // REQUIRES: the workload outlives it.
  explicit CallOrder(const Workload& workload);

  // The order of a program, which all programs of its template share.
  [[nodiscard]] const ProgramOrder& of(std::uint32_t program) const {
    return templates_.at(template_of_.at(program)).order.value();
  }

  // True when of any two different operations, one on each slot, one ends before the other starts.
  // Of one slot with itself: when its calls follow one another.
  [[nodiscard]] bool ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b);

 private:
  // The communication of one slot on one stream, in order.
  struct Lane {
    std::size_t column = 0;  // of its stream in the program's order
    std::vector<OpIndex> operations;
  };
  using Slots = std::map<std::uint16_t, std::vector<Lane>>;

  // Programs of one template have one order: that of the lowest of them, by whose number it goes.
  struct Template {
    std::optional<ProgramOrder> order;
    Slots slots;
  };

  [[nodiscard]] static Slots slots_of(const Program& program, const ProgramOrder& order);
  [[nodiscard]] static bool ordered(const ProgramOrder& order, const Lane& a, const Lane& b);

  std::vector<std::uint32_t> template_of_;  // by program
  std::map<std::uint32_t, Template> templates_;
  std::mutex mutex_;  // of what follows
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, bool> known_;
};

}  // namespace trainyard
