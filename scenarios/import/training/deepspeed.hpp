// Converts a configuration of DeepSpeed with the arguments of a script. The importer of Accelerate
// uses it for its distributed_type DEEPSPEED.
#pragma once

#include "scenarios/import/training/config.hpp"
#include "scenarios/import/training/trainer_arguments.hpp"
#include "scenarios/import/training/training_format.hpp"

namespace trainyard {

// `sizes` are what another file states of the launch; those of the script stand where it states
// none. Throws InputError.
[[nodiscard]] ImportedScenario scenario_of_deepspeed(Config config, TrainerArguments arguments,
                                                     const ImportRequest& request,
                                                     const LaunchedSizes& sizes);

}  // namespace trainyard
