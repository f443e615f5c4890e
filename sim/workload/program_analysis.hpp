// The analysis of the programs of a workload, whatever time anything takes: what each program
// calls, which of its operations end before which others start, and which of its slots are never in
// use at the same time. Programs of one template (program_templates.hpp) have one answer.
//
// Folding, the engine and what-ifs share one analysis. Several threads may ask.
//
//   ProgramAnalysis analysis(workload);
//   analysis.calls(program).by_slot(tensor_slot);
//   if (analysis.ordered(program, tensor_slot, data_slot)) ...;   // their calls never overlap
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "sim/workload/program_calls.hpp"
#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ProgramAnalysis {
 public:
  // `like`: of a workload whose programs of the same numbers may be made of the same blocks; what
  // follows from these is shared. Null: there is none. REQUIRES: the workload outlives it.
  explicit ProgramAnalysis(const Workload& workload, const ProgramAnalysis* like = nullptr);

  // The lowest program of the same template, which may be the program itself.
  [[nodiscard]] std::uint32_t template_of(std::uint32_t program) const {
    return template_of_[program];
  }
  [[nodiscard]] const ProgramCalls& calls(std::uint32_t program) const {
    return templates_.at(template_of_.at(program)).calls;
  }
  [[nodiscard]] const ProgramOrder& order(std::uint32_t program) const {
    return templates_.at(template_of_.at(program)).order;
  }
  // True when of any two different operations, one on each slot, one ends before the other starts.
  // For one slot with itself: true when its calls follow one another.
  [[nodiscard]] bool ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b);
  // Whether the other gives the answers to ordered() that this one has given so far.
  [[nodiscard]] bool answers_hold_for(ProgramAnalysis& other);

 private:
  // The communication of one slot on one stream, in order.
  struct Lane {
    std::size_t column = 0;  // of its stream in the program's order
    std::vector<OpIndex> operations;
  };
  struct Template {
    // `like`: of a program that may be made of the same blocks; null: there is none.
    Template(const Program& program, const Template* like);
    // Returns the lanes of a slot, which are found when they are first asked for.
    [[nodiscard]] const std::vector<Lane>& lanes_of(std::uint16_t slot);

    ProgramCalls calls;
    ProgramOrder order;
    std::vector<std::vector<Lane>> lanes;  // by slot
  };

  [[nodiscard]] static bool ordered(const ProgramOrder& order, const Lane& a, const Lane& b);

  std::vector<std::uint32_t> template_of_;  // by program
  std::map<std::uint32_t, Template> templates_;
  std::mutex mutex_;  // of what follows
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, bool> known_;
};

}  // namespace trainyard
