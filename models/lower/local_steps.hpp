// Workers that each train a copy of the model for several steps, and then exchange what they have
// learned (DiLoCo, Douillard et al. 2311.08105; local SGD, Stich 1805.09767).
//
// A plan describes one worker. The others run the same programs on the GPUs after its own, and no
// gradient crosses between them. After the inner optimizer's step of every H-th step each rank
// subtracts its weights from those of the last exchange, sums the differences over the workers, and
// applies an outer optimizer, SGD with Nesterov momentum. Replicas of a worker that shard the
// optimizer state exchange their shards; the gather of weights that follows is that of the inner
// step. The differences use the memory of the gradients, which are applied by then.
//
//    T = T_inner + T_exchange / H
//
// Worked: the 70.6e9 parameters of Llama 3 70B in fp32, and 2 workers on a line of 12.5 GB/s each
// way: 282 GB take 22.6 s, at H = 100 that is 0.23 s a step
// (tests/scenarios/simulate/local_steps_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Bytes of a parameter in the outer optimizer's state: its weight at the last exchange, and the
// momentum, both in fp32.
inline constexpr std::int64_t kOuterStateBytes = 4 + 4;

// Adds the ranks and groups of the other workers. REQUIRES: the workload is that of one worker.
void add_workers(const TrainingPlan& plan, Workload& workload);

// Returns the parameters that a rank exchanges, by pipeline stage: those whose optimizer state it
// keeps.
[[nodiscard]] std::vector<std::int64_t> exchanged_parameters(const TrainingPlan& plan);

// Returns the exchange and the outer optimizer's step on the ranks of `inner`, which is the
// workload of the plan with all its workers.
[[nodiscard]] Workload exchange_step(const TrainingPlan& plan, const Workload& inner);

}  // namespace trainyard
