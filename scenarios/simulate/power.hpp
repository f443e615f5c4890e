// The power of a step's kernels, and their times at lower clocks and under a power cap.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/timeline/energy.hpp"

namespace trainyard {

// Returns the power of each kernel and state; nothing where the scenario has no block `power`.
// A kernel runs at the clock of its stage, or at a lower one where it would draw more than a cap.
// Kernels that are bound by the tensor cores become slower by that clock, which changes `costs`;
// others keep their time as long as the memory bounds them. Throws InputError for a GPU of unknown
// power, and for a cap that no clock keeps.
[[nodiscard]] std::optional<PowerRates> power_under_cap(const LoweredStep& step,
                                                        KernelPricings& pricings,
                                                        std::vector<Cost>& costs);

// Returns a sentence on each GPU whose power was scaled from another one's, for the report.
[[nodiscard]] std::vector<std::string> power_assumptions(const Cluster& cluster);

}  // namespace trainyard
