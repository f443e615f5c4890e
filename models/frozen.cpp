#include "models/frozen.hpp"

#include <algorithm>

namespace trainyard {

bool trains_embedding(const TrainingPlan& plan) {
  return plan.training.lora_rank == 0 && !plan.training.frozen_embedding;
}

bool trains_head(const TrainingPlan& plan) {
  return plan.training.lora_rank == 0 && !plan.training.frozen_head;
}

bool trains_layer(const TrainingPlan& plan, std::int64_t layer) {
  return std::ranges::find(plan.training.frozen_layers, layer) == plan.training.frozen_layers.end();
}

std::int64_t first_trained(const TrainingPlan& plan) {
  if (trains_embedding(plan)) return -1;
  const std::int64_t layers = plan.architecture.layers;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (trains_layer(plan, layer)) return layer;
  return trains_head(plan) ? layers : layers + 1;
}

bool reaches(const TrainingPlan& plan, std::int64_t layer) { return layer >= first_trained(plan); }

bool freezes(const Training& training) {
  return training.frozen_embedding || training.frozen_head || !training.frozen_layers.empty();
}

}  // namespace trainyard
