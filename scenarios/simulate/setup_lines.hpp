// A few lines for people that name the simulated setup: the changes to the file, model, cluster,
// layout, batch and precision.
//
//    for (const SetupLine& line : setup_lines(scenario, cluster))
//      fmt::print("{:<10} {}\n", line.name, line.text);
#pragma once

#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

[[nodiscard]] std::vector<SetupLine> setup_lines(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
