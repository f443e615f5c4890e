// The analysis of a workload's programs that does not depend on durations: the calls of each
// program, the operations that end before others start, and the pairs of slots that are never in
// use at the same time. Programs of one template (program_templates.hpp) share one result.
//
// Folding, the engine and what-ifs share one analysis. Thread-safe.
//
//    ProgramAnalysis analysis(workload);
//    analysis.calls(program).by_slot(tensor_slot);
//    analysis.ordered(program, tensor_slot, data_slot);   // true: their calls never overlap
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
  // `like` is the analysis of a similar workload, or null. Where programs with equal indices share
  // their blocks, results for these blocks are shared too. REQUIRES: the workload outlives the
  // object.
  explicit ProgramAnalysis(const Workload& workload, const ProgramAnalysis* like = nullptr);

  // Returns the lowest program of the same template, which may be the program itself.
  [[nodiscard]] std::uint32_t template_of(std::uint32_t program) const {
    return template_of_[program];
  }
  [[nodiscard]] const ProgramCalls& calls(std::uint32_t program) const {
    return templates_.at(template_of_.at(program)).calls;
  }
  [[nodiscard]] const ProgramOrder& order(std::uint32_t program) const {
    return templates_.at(template_of_.at(program)).order;
  }
  // True if, of any two different operations, one on each slot, one ends before the other starts.
  // For a slot with itself: true if its calls never overlap.
  [[nodiscard]] bool ordered(std::uint32_t program, std::uint16_t a, std::uint16_t b);
  // True if `other` returns the same results for all queries of ordered() that this object has
  // answered.
  [[nodiscard]] bool answers_hold_for(ProgramAnalysis& other);

 private:
  // The communication of one slot on one stream, in issue order.
  struct Lane {
    std::size_t column = 0;  // column of its stream in ProgramOrder
    std::vector<OpIndex> operations;
  };
  struct Template {
    // `like` belongs to a program that shares its blocks; null: there is none.
    Template(const Program& program, const Template* like);
    // Returns the lanes of a slot. It computes them on the first call.
    [[nodiscard]] const std::vector<Lane>& lanes_of(std::uint16_t slot);

    ProgramCalls calls;
    ProgramOrder order;
    std::vector<std::vector<Lane>> lanes;  // by slot
  };

  [[nodiscard]] static bool ordered(const ProgramOrder& order, const Lane& a, const Lane& b);

  std::vector<std::uint32_t> template_of_;  // by program
  std::map<std::uint32_t, Template> templates_;
  std::mutex mutex_;  // guards known_ and Template::lanes
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>, bool> known_;
};

}  // namespace trainyard
