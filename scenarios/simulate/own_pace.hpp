// Steps of workers of parameter servers that do not wait for each other.
//
// Such workers take a step after the other until all together have made so many, as with a global
// counter of steps (TensorFlow's asynchronous replicas): the faster make more of them. How many is
// what a run tells: all workers make the same number first, and the pace of each while nobody has
// ended yet says how to share out the steps of the next run. Two speeds of 1 and 2 steps a second,
// 30 steps in the mean: 20 and 40, in 20 s, where both making 30 would take 30 s
// (tests/scenarios/simulate/own_pace_test.cpp).
//
//   T = steps / sum of the workers' rates
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "models/plan.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// By worker and step: when its computation ended. REQUIRES: the run is of the plan, whose replicas
// meet in parameter servers.
[[nodiscard]] std::vector<std::vector<double>> step_ends(const Result& run,
                                                         const TrainingPlan& plan);

// How many of `total` steps each worker makes, one at least, at the pace that `ends` tell, which is
// taken until the first of them has made all its steps. Nobody is more than `staleness` + 1 ahead
// of the slowest; nothing: no bound. REQUIRES: everybody has made a step; total is at least the
// number of workers.
[[nodiscard]] std::vector<std::uint32_t> shared_out(std::span<const std::vector<double>> ends,
                                                    std::uint64_t total,
                                                    std::optional<std::uint32_t> staleness);

// Simulates the scenario with the steps that each worker makes at its own pace.
// Workers of one speed make the same number of steps, and are simulated once.
[[nodiscard]] Result simulate_at_own_pace(const Scenario& scenario,
                                          const std::function<Result(const Scenario&)>& simulate);

}  // namespace trainyard
