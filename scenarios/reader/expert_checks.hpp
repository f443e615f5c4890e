// Rules between the fields of a mixture of experts: what divides what, and what goes with what.
#pragma once

#include "scenarios/reader/checks.hpp"
#include "scenarios/reader/training_checks.hpp"

namespace trainyard {

void check_experts(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

}  // namespace trainyard
