// The spread of measured calls about predictions that were fitted without them
// (sim/nccl/spread.hpp).
//
//    const std::vector<CallSpread> spreads = fit_spreads(residuals);
#pragma once

#include <string>
#include <vector>

#include "sim/nccl/fit/fit_machine.hpp"
#include "sim/nccl/spread.hpp"

namespace trainyard::nccl::fit {

// Returns the spread by number of nodes and size (below 1 MiB, and from there on). Every cluster
// has the same weight in a class. Logs of several nodes that the fit leaves out (weight 0: clusters
// in production, means of many) are left out here as well. REQUIRES: calls in each class.
[[nodiscard]] std::vector<CallSpread> fit_spreads(const std::vector<Residual>& residuals);

// A Markdown table with one line for each class.
[[nodiscard]] std::string to_markdown(const std::vector<CallSpread>& spreads);

}  // namespace trainyard::nccl::fit
