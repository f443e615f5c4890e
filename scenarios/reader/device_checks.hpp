// Rules of parallelism.operator_devices: what a model split by hand, operator by operator, can be
// combined with.
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/training_checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// One microbatch at a time, replicas alone beside it, and every operator on a device.
void check_operator_devices(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

}  // namespace trainyard
