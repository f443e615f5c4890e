#include "models/lower/layer_memory.hpp"

namespace trainyard {

ActivationQuery activation_query(const TrainingPlan& plan) {
  return {.tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = plan.parallelism.context,
          .micro_batch = plan.training.micro_batch_size,
          .sequence_length = plan.training.sequence_length,
          .recompute = plan.training.recompute,
          .attention = plan.training.attention,
          .precision = plan.training.precision};
}

LayerMemory layer_memory(const TrainingPlan& plan) {
  const ActivationQuery query = activation_query(plan);
  return {.kept = layer_activations(plan.architecture, query).total(),
          .working = recomputed_activations(plan.architecture, query)};
}

}  // namespace trainyard
