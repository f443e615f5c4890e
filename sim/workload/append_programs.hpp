// Joins programs that were written with tables of their own, as two threads write them.
//
//   append_programs(first, std::move(second));   // first has the programs of both
#pragma once

#include "sim/workload/workload.hpp"

namespace trainyard {

// Appends the programs of `more`. Their names, kernels, calls and delays get the numbers they would
// have, had one writer numbered all as they came: those of `workload` where it has the same, new
// ones behind them in their order otherwise. Programs of one form still share it. REQUIRES: in each
// of these tables of both nothing stands twice.
void append_programs(Workload& workload, Workload more);

}  // namespace trainyard
