// The steps of parameter-server workers that do not wait for each other.
//
// Such workers take one step after another until all of them together have made a given number, as
// with a global step counter (TensorFlow's asynchronous replicas), so faster workers make more
// steps. The numbers follow from runs: in the first run all workers make the same number of steps.
// The pace of each worker until the first one ends determines its steps in the next run. Two speeds
// of 1 and 2 steps a second, 30 steps on average: 20 and 40 steps, in 20 s; 30 steps each would
// take 30 s (tests/scenarios/simulate/own_pace_test.cpp).
//
//    T = steps / sum of the workers' rates
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "models/plan.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// Returns the end of the computation, by worker and step. REQUIRES: the run is of the plan, whose
// replicas use parameter servers.
[[nodiscard]] std::vector<std::vector<double>> step_ends(const Result& run,
                                                         const TrainingPlan& plan);

// Divides `total` steps among the workers, at least one each, by their pace until the first of them
// has made all its steps in `ends`. No worker is more than `staleness` + 1 steps ahead of the
// slowest; nothing: no bound. REQUIRES: every worker has made a step; total is at least the number
// of workers.
[[nodiscard]] std::vector<std::uint32_t> divide_steps(std::span<const std::vector<double>> ends,
                                                      std::uint64_t total,
                                                      std::optional<std::uint32_t> staleness);

// Simulates the scenario with every worker at its own pace. Workers of one speed make the same
// number of steps and are simulated once.
[[nodiscard]] Result simulate_at_own_pace(const Scenario& scenario,
                                          const std::function<Result(const Scenario&)>& simulate);

}  // namespace trainyard
