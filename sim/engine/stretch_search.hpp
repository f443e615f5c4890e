// Where the stretches of a program are. Sections that repeat one another (program_sections.hpp) are
// searched once.
//
//   std::vector<SectionStretches> found = search_stretches(program, may_join, order);
//   found[5].as;                        // 3: what section 5 holds follows from section 3
//   found[found[5].as].stretches[0];    // the operations of its first stretch
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/stretches.hpp"
#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct SectionStretches {
  // The section whose stretches, shifted, it has: itself where it was searched.
  std::uint32_t as = 0;
  std::vector<std::vector<OpIndex>> stretches = {};  // their members, in issue order
};

// By section. REQUIRES: what may join is the same of a section and its copies.
[[nodiscard]] std::vector<SectionStretches> search_stretches(const Program& program,
                                                             const MayJoin& may_join,
                                                             const ProgramOrder& order);

}  // namespace trainyard
