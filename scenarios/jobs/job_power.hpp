// The power of several jobs on one cluster, and the energy of the GPUs of each.
//
// The kernels of each job have the power that its own block `power` gives them, so caps and clocks
// may differ; hosts, NICs and switches are those of the cluster. Traffic draws power on GPUs of its
// own as a job that communicates does. On GPUs of another job it adds the power of the bytes that
// it sends, also where the other job is at the limit of the GPU.
#pragma once

#include <optional>
#include <span>

#include "scenarios/jobs/joint_workload.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/timeline/energy.hpp"

namespace trainyard {

// Joins the rates of jobs that are simulated together, in the order of their workloads. Nothing
// where those of one job are missing (null).
[[nodiscard]] std::optional<PowerRates> join_rates(std::span<const PowerRates* const> jobs);

// Takes what a GPU draws without communication out of the rates of traffic whose GPUs another job
// has: `rates` then add to those of the other job. The idle power stays, since a cluster subtracts
// it for each rank beyond its GPUs.
void share_gpus(PowerRates& rates);

// Returns the joules of all GPUs of a job between two dates. REQUIRES: `traces` are of the run.
[[nodiscard]] double gpus_joules(const Result& run, const PowerTraces& traces, const JobPart& job,
                                 double begin_s, double end_s);

}  // namespace trainyard
