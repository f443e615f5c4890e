// The tables of the fields of a file of jobs (sim/base/field.hpp defines their entries). The reader
// (jobs.cpp) and the schema use them; those of placements and traffic are in placement.cpp and
// traffic.cpp.
//
//    JobSpec job = read_fields(object, job_fields(), {.name = "job 0"});
#pragma once

#include <span>

#include "scenarios/jobs/jobs.hpp"
#include "sim/base/field.hpp"

namespace trainyard {

// Returns the fields at the root of the file except the list of jobs, the cluster among them.
[[nodiscard]] std::span<const Field<Jobs>> jobs_fields();
// Returns the fields of one job. The entries "scenario" and "set" read nothing: the reader does,
// because a scenario needs the cluster and the folder of the file.
[[nodiscard]] std::span<const Field<JobSpec>> job_fields();

}  // namespace trainyard
