// Finds the stretches of a program. Instances of a block are searched once where they are entered
// in the same way.
//
//   std::vector<InstanceStretches> found = search_stretches(program, may_join, order);
//   found[5].as;                        // 3: what instance 5 holds follows from instance 3
//   found[found[5].as].stretches[0];    // the operations of its first stretch
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/stretches.hpp"
#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct InstanceStretches {
  // The instance whose stretches, shifted, it has: itself where it was searched.
  std::uint32_t as = 0;
  std::vector<std::vector<OpIndex>> stretches = {};  // their members, in issue order
};

// Returns the stretches of each instance. REQUIRES: all instances of a block agree on which of
// their operations may join.
[[nodiscard]] std::vector<InstanceStretches> search_stretches(const Program& program,
                                                              const MayJoin& may_join,
                                                              const ProgramOrder& order);

}  // namespace trainyard
