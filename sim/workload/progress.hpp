// Can a workload run to its end at all? A static look for the cycle that would hang it.
//
// Operations wait for the one before them on their stream, for their dependencies, and at meetings
// for the other members of the group. None of it depends on durations, so a deadlock is found
// without an engine, and the cycle of who waits for whom is named.
//
//   validate(workload, "step.json");
//   check_progress(workload, "step.json");
#pragma once

#include <string>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Throws InputError that names the cycle. Takes time and memory in proportion to ranks times
// operations, so it is for workloads read from files; lowered ones are legal by construction.
// REQUIRES: the workload is valid (validate in workload.hpp).
void check_progress(const Workload& workload, const std::string& file);

}  // namespace trainyard
