// What the stretches of a program look like, those that are alike under one number.
//
//   ProgramStretches stretches = stretch_shapes(program, order, search_stretches(...));
#pragma once

#include <vector>

#include "sim/engine/stretch_search.hpp"
#include "sim/engine/stretches.hpp"
#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// REQUIRES: `found` is of the program, by instance.
[[nodiscard]] ProgramStretches stretch_shapes(const Program& program, const ProgramOrder& order,
                                              const std::vector<InstanceStretches>& found);

}  // namespace trainyard
