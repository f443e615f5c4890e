// Several steps of replicas that meet in parameter servers alone: workers may run ahead of each
// other by a bounded number of steps, or without a bound.
//
// The traffic is that of sim/collectives/parameter_server_traffic.hpp; here the computation of a
// worker's step is its real kernels, and a server applies the optimizer to its k-th of the
// parameters: once everybody has pushed, or with every push where workers may run ahead. C of
// computation and U of the update on a free network, W workers, n steps: n(C + U) where nobody may
// run ahead, nC + WU where a step may and WU <= C (tests/models/lower/server_steps_test.cpp).
//
//   Workload w = server_steps(plan, {.servers = {0, 1}, .steps = 8, .staleness = 2});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

struct ServerSteps {
  std::vector<std::uint32_t> servers = {0};  // GPUs; those below plan.parallelism.data are shared
  std::uint32_t steps = 1;
  std::vector<std::uint32_t> steps_of_worker = {};  // where they differ; empty: `steps` each
  std::optional<std::uint32_t> staleness = {0};  // steps ahead of the slowest; nothing: unbounded
};

// Worker i is on GPU i. Gradients and weights travel as wide as gradients are kept. A server's
// update takes its own stream; what it takes from a worker's kernels beside it is not counted.
// Throws InputError for a plan with another parallelism than `data`, and as
// parameter_server_traffic.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan, const ServerSteps& steps);

// As plan.servers says: dedicated servers behind the workers' GPUs, others on the first of them.
[[nodiscard]] Workload server_steps(const TrainingPlan& plan);

}  // namespace trainyard
