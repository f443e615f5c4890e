// Converts a launch of Megatron-LM to a scenario (megatron/training/arguments.py, version 0.12:
// names, defaults, and derived values).
//
//    MegatronLaunch launch = scenario_of_megatron(arguments, {.node = "dgx_h100", .nodes = 16});
//    write_file("mine.json", launch.scenario.dump(2));
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/launched_cluster.hpp"

namespace trainyard {

struct MegatronLaunch {
  nlohmann::ordered_json scenario;
  std::vector<std::string> notes;    // assumptions, and properties that a scenario cannot express
  std::vector<std::string> unknown;  // arguments that this reader does not use and that may matter
};
// Throws InputError for missing or contradictory arguments.
[[nodiscard]] MegatronLaunch scenario_of_megatron(LaunchArguments arguments,
                                                  const LaunchMachine& machine);

}  // namespace trainyard
