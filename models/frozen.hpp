// Which weights are trained, and how far back the backward has to go.
//
// A frozen layer has no weight gradient, no optimizer state and nothing to reduce; its backward is
// the input gradient alone, and it keeps no input of a product. Before the first trained weight of
// the model there is no backward at all: nothing is kept and nothing is sent to the stage before.
//
//   reaches(plan, 3);   // false where the embedding and layers 0 to 3 are frozen
#pragma once

#include <cstdint>

#include "models/plan.hpp"

namespace trainyard {

// With adapters (lora_rank) only those are trained: a layer is, unless it is frozen itself.
[[nodiscard]] bool trains_embedding(const TrainingPlan& plan);
[[nodiscard]] bool trains_head(const TrainingPlan& plan);  // with the norm before it
[[nodiscard]] bool trains_layer(const TrainingPlan& plan, std::int64_t layer);

// The lowest layer that is trained: -1 the embedding, the number of layers where only the head is,
// one more where nothing is.
[[nodiscard]] std::int64_t first_trained(const TrainingPlan& plan);
// Does a gradient come as far back as to this layer?
[[nodiscard]] bool reaches(const TrainingPlan& plan, std::int64_t layer);
// Is anything frozen beside what adapters leave alone?
[[nodiscard]] bool freezes(const Training& training);

}  // namespace trainyard
