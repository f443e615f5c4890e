#include "tools/studies/search/sample.hpp"

#include <algorithm>
#include <cstdint>

#include "models/pipeline_shape.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kOfEachChunk = 2;

// Whether every microbatch has the kernels and the memory of every other one.
bool microbatches_alike(const TrainingPlan& plan) {
  const bool even = plan.experts.routing == RoutingKind::Balanced;
  return (even || !plan.architecture.has_experts()) && !plan.documents.drawn();
}

bool has(const std::vector<ScheduleStep>& list, StepKind kind, std::int64_t chunk) {
  return std::ranges::any_of(
      list, [&](const ScheduleStep& step) { return step.kind == kind && step.chunk == chunk; });
}

// Of a rank: each microbatch forwards through the chunks and back through them.
std::vector<ScheduleStep> sample_list(const std::vector<ScheduleStep>& list,
                                      const PipelineShape& shape) {
  std::vector<ScheduleStep> sample;
  const auto add = [&](StepKind kind, std::int64_t number, std::int64_t chunk) {
    const std::int64_t microbatch = microbatches_of(shape, chunk).begin + number;
    sample.push_back({.kind = kind,
                      .microbatch = static_cast<std::int32_t>(microbatch),
                      .chunk = static_cast<std::int32_t>(chunk)});
  };
  for (std::int64_t number = 0; number < kOfEachChunk; ++number) {
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
      add(StepKind::Forward, number, chunk);
    for (std::int64_t chunk = shape.chunks; chunk-- > 0;) {
      const bool whole = has(list, StepKind::Backward, chunk);
      const bool split = has(list, StepKind::BackwardInput, chunk);
      if (whole && (!split || number == 0)) {
        add(StepKind::Backward, number, chunk);
      } else {
        add(StepKind::BackwardInput, number, chunk);
        add(StepKind::BackwardWeight, number, chunk);
      }
    }
  }
  return sample;
}

}  // namespace

StepSample sample_of(const TrainingPlan& plan, const ScheduleLists& lists) {
  const std::int64_t count = kOfEachChunk * weight_copies(plan.parallelism);
  if (!microbatches_alike(plan) || plan.microbatches() <= count) return {plan, lists};
  StepSample sample{.plan = plan, .lists = {}};
  sample.plan.training.global_batch_size =
      plan.training.micro_batch_size * plan.parallelism.data * count;
  const PipelineShape shape = pipeline_shape(sample.plan);
  for (const std::vector<ScheduleStep>& list : lists)
    sample.lists.push_back(sample_list(list, shape));
  return sample;
}

}  // namespace trainyard
