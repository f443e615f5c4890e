#include "models/frozen.hpp"

#include <algorithm>

namespace trainyard {

namespace {

std::int64_t first_trained(const TrainedWeights& trained, std::int64_t layers) {
  if (trained.embedding) return -1;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (trained.layer(layer)) return layer;
  return trained.head ? layers : layers + 1;
}

}  // namespace

bool TrainedWeights::layer(std::int64_t number) const {
  return std::ranges::find(frozen_layers, number) == frozen_layers.end();
}

TrainedWeights trained_weights(const TrainingPlan& plan) {
  const Training& training = plan.training;
  TrainedWeights trained{.embedding = training.lora_rank == 0 && !training.frozen_embedding,
                         .head = training.lora_rank == 0 && !training.frozen_head,
                         .frozen_layers = training.frozen_layers};
  trained.first = first_trained(trained, plan.architecture.layers);
  return trained;
}

bool freezes(const Training& training) {
  return training.frozen_embedding || training.frozen_head || !training.frozen_layers.empty();
}

}  // namespace trainyard
