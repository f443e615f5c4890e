// The lowest clock of each pipeline stage at which the step hardly grows ("clock_tolerance").
//
// A stage that computes less than the slowest one waits for it, in bubbles. At a lower clock it
// computes longer and waits less, and takes less energy for the same work, because the voltage
// falls with the clock. Perseus (Chung et al., SOSP 2024, arXiv 2312.06902) sets a clock for every
// forward and backward; here a stage keeps one clock for the whole step, so the filling and the
// draining of the pipeline slow down too. The tolerance allows for them.
//
// Stages whose computation takes equally long have one clock. The simulation decides on each
// candidate: it must keep the tolerance and take less energy than the best so far.
#pragma once

#include <functional>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// Simulates the scenario with full clocks and with lower ones, and returns the run that takes the
// least energy among those within the tolerance. Its facts have the clocks, and the step with full
// clocks. REQUIRES: the scenario has a block `power` with a clock_tolerance.
[[nodiscard]] Result simulate_lower_clocks(const Scenario& scenario,
                                           const std::function<Result(const Scenario&)>& simulate);

}  // namespace trainyard
