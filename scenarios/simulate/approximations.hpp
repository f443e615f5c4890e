// The simplifications of a run, counted, each with a sentence that a user can act on.
#pragma once

#include <span>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

using Approximations = std::vector<Approximation>;

// Returns the parts of this plan that the lowering omits, and settings without effect.
[[nodiscard]] Approximations plan_approximations(const Scenario& scenario);
// Reports a link that is slower than the NIC and that a message crosses before it reaches the NIC.
[[nodiscard]] Approximations cluster_approximations(const Cluster& cluster);

// Reports, for a workload without a scenario, that the software around its kernels is not known.
[[nodiscard]] Approximations software_approximations(const Workload& workload);

// Returns for each kernel whether a rank's program computes it.
[[nodiscard]] std::vector<bool> kernels_used(const Workload& workload);

// Counts the kernels, among those `used`, whose durations are not measured.
[[nodiscard]] Approximations cost_approximations(const std::vector<bool>& used,
                                                 std::span<const Cost> costs);

// Reports the replacement that the simulator uses where NCCL's data do not cover the cluster.
[[nodiscard]] Approximations nccl_approximations(const Workload& workload, const Cluster& cluster,
                                                 const nccl::NcclModel& communication);

// Reports the steps of workers that run ahead of each other, where the workers differ in steps.
[[nodiscard]] Approximations pace_approximations(const std::vector<std::uint32_t>& steps_of_worker);

// Counts the weights of flows that the engine rounded.
[[nodiscard]] Approximations engine_approximations(const Timeline& timeline);

}  // namespace trainyard
