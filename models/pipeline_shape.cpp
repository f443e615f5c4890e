#include "models/pipeline_shape.hpp"

#include <algorithm>

#include "models/architecture/flops.hpp"
#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

namespace {

// Counts the layers of an even chunk, since the split itself is made by the shape that is asked for
// here. Chunks have more or fewer of listed layers: the mean stands for all.
double recomputed_share_of_a_chunk(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const std::int64_t chunks =
      plan.training.recompute_method == RecomputeMethod::Layers ? 1 : p.pipeline * p.interleave;
  const std::int64_t layers = std::max<std::int64_t>(1, plan.architecture.layers / chunks);
  double again = 0.0;
  for (const RecomputeUnit& unit : recompute_units(plan.training, {.layers = layers})) {
    if (unit.again) again += static_cast<double>(unit.layers);
  }
  return again / static_cast<double>(layers);
}

// FLOPs of one layer and token, of the last one, which has the experts where there are any:
// products with weights 2 per weight and pass; the causal attention core s*(q + o) forward and 2.5
// times that backward (reference: Dao 2307.08691, section 3.1).
StepCosts costs_of(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const TokenFlops token =
      token_flops(a, {.sequence_length = plan.training.sequence_length, .vocab = a.vocab});
  const double products = token.moe_layers > 0 ? token.moe_layer : token.linear_layer;
  const double core = token.attention_layer;
  const double forward = products + core;
  if (!(forward > 0.0)) return {};
  const double repeated = recomputed_share_of_a_chunk(plan);
  return {.forward_s = 1.0,
          .input_s = (products + 2.5 * core) / forward + repeated,
          .weight_s = products / forward,
          .transfer_s = 0.0};
}

}  // namespace

StagePlacement placement_of(const Parallelism& parallelism) {
  const FoundSchedule schedule = open_schedule(parallelism.schedule);
  return schedule ? schedule->placement() : StagePlacement::Wrap;
}

PipelineShape pipeline_shape(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return {.stages = p.pipeline,
          .microbatches = plan.microbatches(),
          .chunks = p.interleave,
          .group_size = p.microbatch_group_size,
          .placement = placement_of(p),
          .costs = costs_of(plan)};
}

std::int64_t weight_copies(const Parallelism& parallelism) {
  return placement_of(parallelism) == StagePlacement::Bidirectional ? 2 : 1;
}

std::int64_t expert_copies(const Parallelism& parallelism) {
  return parallelism.expert_replicas() * weight_copies(parallelism);
}

bool ends_on_one_rank(const Parallelism& parallelism) {
  if (!parallelism.operator_devices.empty()) return true;  // where a table is tied
  return parallelism.pipeline == 1 || placement_of(parallelism) != StagePlacement::Wrap;
}

}  // namespace trainyard
