#include "models/pipeline_shape.hpp"

#include "models/schedules/schedule.hpp"

namespace trainyard {

namespace {

// FLOPs of one layer and token: products with weights 2 per weight and pass; the causal attention
// core 2*s*q forward and 2.5 times that backward (reference: Dao 2307.08691, section 3.1).
StepCosts costs_of(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const double attention_weights =
      static_cast<double>(a.hidden) * static_cast<double>(2 * a.query_width() + 2 * a.kv_width());
  const double ffn_weights =
      static_cast<double>(a.hidden) * static_cast<double>((a.ffn_inputs() + 1) * a.ffn);
  const double products = 2.0 * (attention_weights + ffn_weights);
  const double core = 2.0 * static_cast<double>(plan.training.sequence_length * a.query_width());
  const double forward = products + core;
  if (!(forward > 0.0)) return {};
  const double repeated = plan.training.recompute == Recompute::Full ? 1.0 : 0.0;
  return {.forward_s = 1.0,
          .input_s = (products + 2.5 * core) / forward + repeated,
          .weight_s = products / forward,
          .transfer_s = 0.0};
}

}  // namespace

Placement placement_of(const Parallelism& parallelism) {
  const FoundSchedule schedule = open_schedule(parallelism.schedule);
  return schedule ? schedule->placement() : Placement::Wrap;
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
  return placement_of(parallelism) == Placement::Bidirectional ? 2 : 1;
}

bool ends_on_one_rank(const Parallelism& parallelism) {
  return parallelism.pipeline == 1 || placement_of(parallelism) != Placement::Wrap;
}

}  // namespace trainyard
