// The steps of several jobs as one workload, which the engine plays on their common cluster.
//
// A job's next step starts when all its ranks have ended the step before, as training loops wait
// for the loss: after each step every rank meets the others of its job in a rendezvous that takes
// no time. The step of a job that is alone therefore takes as long in the joint workload as in a
// run of its scenario. Programs, kernels, groups and ranks of a job follow those of the jobs before
// it, and jobs share none of them.
//
//    const std::vector<JobSteps> jobs = {{.name = "a", .step = &a, .steps = 3},
//                                        {.name = "b", .step = &b, .steps = 5}};
//    const JointWorkload joint = join_jobs(jobs);
//    joint.jobs[1].first_rank;   // the number of ranks of job a
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scenarios/simulate/lowered.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// REQUIRES: `step` outlives the call. Its ranks are on the GPUs that the job has.
struct JobSteps {
  std::string name = {};
  const Lowered* step = nullptr;
  std::uint32_t steps = 1;
  Seconds start = {};
};

// Where the operations of one step are in a program of a job.
struct StepRange {
  OpIndex begin = 0;       // first operation
  OpIndex rendezvous = 0;  // the operation that ends when all ranks have ended the step
};

// The part of the joint workload that belongs to one job.
struct JobPart {
  std::uint32_t first_program = 0;
  std::uint32_t programs = 0;
  std::uint32_t first_kernel = 0;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t first_group = 0;
  std::uint32_t groups = 0;  // that of the rendezvous is the last
  std::uint32_t steps = 0;
  std::vector<std::uint32_t> step_operations;  // by program: of one step, without the rendezvous
  std::vector<std::uint32_t> streams;          // by program: number of streams that it uses

  // REQUIRES: step <= steps; `begin` of step number `steps` is where a further step would begin.
  [[nodiscard]] StepRange step(std::uint32_t program, std::uint32_t step) const;
};

struct JointWorkload {
  Specialised specialised;      // the workload, and the GPU of each kernel
  std::vector<HostLane> hosts;  // by program; empty: issuing costs nothing
  std::vector<JobPart> jobs;
};

// Throws RunError where a program becomes longer than 2^31 operations.
[[nodiscard]] JointWorkload join_jobs(std::span<const JobSteps> jobs);

}  // namespace trainyard
