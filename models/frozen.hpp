// Which weights are trained, and how far back the backward has to go.
//
// A frozen layer has no weight gradient, no optimizer state and nothing to reduce; its backward is
// the input gradient alone, and it keeps no input of a product. Before the first trained weight of
// the model there is no backward at all: nothing is kept and nothing is sent to the stage before.
//
//   trained_weights(plan).reaches(3);   // false where the embedding and layers 0 to 3 are frozen
#pragma once

#include <cstdint>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// With adapters (lora_rank) only those are trained: a layer is, unless it is frozen itself.
struct TrainedWeights {
  bool embedding = true;
  bool head = true;  // with the norm before it
  std::vector<std::int64_t> frozen_layers = {};
  // The lowest layer that is trained: -1 the embedding, the number of layers where only the head
  // is, one more where nothing is.
  std::int64_t first = -1;

  [[nodiscard]] bool layer(std::int64_t number) const;
  // Does a gradient come as far back as to this layer?
  [[nodiscard]] bool reaches(std::int64_t number) const { return number >= first; }
};
[[nodiscard]] TrainedWeights trained_weights(const TrainingPlan& plan);

// Is anything frozen beside what adapters leave alone?
[[nodiscard]] bool freezes(const Training& training);

}  // namespace trainyard
