#include "models/lower/step_shape.hpp"

namespace trainyard {

StepShape::StepShape(const TrainingPlan& plan, std::int64_t place) : ring_place(place) {
  const Parallelism& p = plan.parallelism;
  tokens = plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  tensor = p.tensor;
  sequence_parallel = p.sequence_parallel && tensor > 1;
  local_tokens = sequence_parallel ? tokens / tensor : tokens;
  dtype = plan.training.precision;
  element = static_cast<std::int64_t>(element_bytes(dtype));
  gradient = static_cast<std::int64_t>(element_bytes(plan.training.gradient_precision));
  message = tokens * plan.architecture.hidden * element;
  const bool split = sequence_parallel || (p.scatter_gather && tensor > 1);
  boundary = split ? message / tensor : message;
}

}  // namespace trainyard
