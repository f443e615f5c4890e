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

namespace {

std::int64_t held_for_weights(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const std::int64_t tensor = plan.parallelism.tensor;
  const std::int64_t qkv = a.hidden + (a.query_width() + 2 * a.kv_width()) / tensor;
  const std::int64_t projection = a.query_width() / tensor + a.hidden;
  const std::int64_t up = a.hidden + a.ffn_inputs() * a.ffn / tensor;
  const std::int64_t down = a.ffn / tensor + a.hidden;
  const std::int64_t tokens = plan.training.micro_batch_size *
                              (plan.training.sequence_length / plan.parallelism.context);
  const auto element = static_cast<std::int64_t>(element_bytes(plan.training.precision));
  return element * tokens * (qkv + projection + up + down);
}

}  // namespace

LayerMemory layer_memory(const TrainingPlan& plan) {
  const ActivationQuery query = activation_query(plan);
  return {.kept = layer_activations(plan.architecture, query).total(),
          .working = recomputed_activations(plan.architecture, query),
          .for_weights = held_for_weights(plan)};
}

}  // namespace trainyard
