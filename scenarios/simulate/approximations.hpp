// What a run simplifies, counted, each with a sentence that a user can act on (design D10).
#pragma once

#include <span>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

using Approximations = std::vector<Approximation>;

// Names the parts of this plan that the lowering leaves out, and settings without effect.
[[nodiscard]] Approximations plan_approximations(const Scenario& scenario);
// Says which link slower than the NIC a message crosses on its way to it.
[[nodiscard]] Approximations cluster_approximations(const Cluster& cluster);

// Says of a workload without a scenario that the software around its kernels is not known.
[[nodiscard]] Approximations software_approximations(const Workload& workload);

// By kernel: whether a rank's program computes it.
[[nodiscard]] std::vector<bool> kernels_used(const Workload& workload);

// How many of the kernels that are `used` have durations that were not measured.
[[nodiscard]] Approximations cost_approximations(const std::vector<bool>& used,
                                                 std::span<const Cost> costs);

// Where NCCL's data do not know the cluster: what is taken for it.
[[nodiscard]] Approximations nccl_approximations(const Workload& workload, const Cluster& cluster,
                                                 const nccl::NcclModel& communication);

// The steps of workers that run ahead of each other, where they are not the same for all.
[[nodiscard]] Approximations pace_approximations(const std::vector<std::uint32_t>& steps_of_worker);

// Counts what the engine had to round.
[[nodiscard]] Approximations engine_approximations(const Timeline& timeline);

}  // namespace trainyard
