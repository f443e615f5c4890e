// Rules of the sections that change how a step is split beside parallelism: frozen layers, packed
// documents, parameter servers, what is offloaded, stages by hand.
#pragma once

#include "models/schedules/schedule.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/training_checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Layers that there are, something left to train, and shardings that hold frozen weights.
void check_frozen(JsonFile& file, const Scenario& scenario, const SoundSections& sound);
// Documents that fill their sequences, and ranks that see whole ones.
void check_documents(JsonFile& file, const Scenario& scenario, const SoundSections& sound);
// Workers that hold the whole model, and GPUs for the servers.
void check_servers(JsonFile& file, const Scenario& scenario, const SoundSections& sound);
// Host memory that the node's data know, and weights that nobody gathers.
void check_offload(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

// A schedule whose gradients can be reduced while it runs. REQUIRES: the schedule has this shape.
void check_reduction_order(JsonFile& file, const Scenario& scenario, const Schedule& schedule);

}  // namespace trainyard
