// Rules between a scenario's GPUs and what they are asked to multiply.
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/training_checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Every GPU has a profile, and multiplies numbers of the training's precision and of its recipe.
void check_gpu_profiles(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

}  // namespace trainyard
