// Rules of the training section: what is computed again, and which weights are trained.
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// What was read without a problem before any rule was tried: rules do not silence each other.
struct SoundSections {
  bool model = false;
  bool parallelism = false;
  bool training = false;
};

// Modules and layers that there are, and fields that the chosen method reads.
void check_recomputation(JsonFile& file, const Scenario& scenario, const SoundSections& sound);
// A fraction of so few layers that it rounds down to none. REQUIRES: layers divide over the stages.
void check_recomputed_fraction(JsonFile& file, const Scenario& scenario);
// Layers of multi-token prediction, where sharding and adapters allow them.
void check_further_tokens(JsonFile& file, const Scenario& scenario, const SoundSections& sound);
// Adapters on matrices that there are, of models and shardings that can have them.
void check_adapters(JsonFile& file, const Scenario& scenario, const SoundSections& sound);

}  // namespace trainyard
