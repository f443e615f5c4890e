// Converts a launch of Megatron-LM to a scenario (megatron/training/arguments.py, version 0.12:
// names, defaults, and derived values).
//
//    ImportedScenario launch =
//        scenario_of_megatron(arguments, {.node = "dgx_h100", .nodes = 16});
//    write_file("mine.json", launch.scenario.dump(2));
#pragma once

#include "scenarios/import/imported_scenario.hpp"
#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/launched_cluster.hpp"

namespace trainyard {

// Throws InputError for missing or contradictory arguments.
[[nodiscard]] ImportedScenario scenario_of_megatron(LaunchArguments arguments,
                                                    const LaunchMachine& machine);

}  // namespace trainyard
