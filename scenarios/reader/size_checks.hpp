// Sizes whose products would leave 64 bits are refused before anything is counted.
#pragma once

#include "scenarios/reader/expert_checks.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/split_checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Reports the field to blame where the ranks, the parameters or the activations of the step are
// more than can be counted; false then, and no further rule may multiply them.
bool check_sizes(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

}  // namespace trainyard
