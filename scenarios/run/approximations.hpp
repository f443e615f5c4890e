// What a run simplifies, counted, each with a sentence that a user can act on (design D10).
#pragma once

#include <span>
#include <vector>

#include "models/collectives/nccl/transport.hpp"
#include "scenarios/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Names the parts of this plan that the lowering leaves out, and settings without effect.
void add_plan_approximations(const Scenario& scenario, RunFacts& facts);
// Says which link slower than the NIC a message crosses on its way to it.
void add_cluster_approximations(const Cluster& cluster, RunFacts& facts);

// Of a workload that comes without a scenario: the software around its kernels is not known.
void add_software_approximation(const Workload& workload, RunFacts& facts);

// By kernel: whether a rank's program computes it.
[[nodiscard]] std::vector<bool> kernels_used(const Workload& workload);

// How many of the kernels that are `used` have durations that were not measured.
void add_cost_approximations(const std::vector<bool>& used, std::span<const Cost> costs,
                             RunFacts& facts);

// Where NCCL's data do not know the cluster: what is taken for it.
void add_nccl_approximations(const Workload& workload, const Cluster& cluster,
                             const nccl::NcclTransport& transport, RunFacts& facts);

// The steps of workers that run ahead of each other, where they are not the same for all.
void add_pace(const std::vector<std::uint32_t>& steps_of_worker, RunFacts& facts);

// What the engine had to round.
void add_engine_approximations(const Timeline& timeline, RunFacts& facts);

}  // namespace trainyard
