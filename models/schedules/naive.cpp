// Naive model parallelism: one microbatch is in the pipeline, so one rank works at a time. The
// makespan is m*p*(F+B). Example: p = 4, m = 8, F = 1, B = 2 give 96
// (tests/models/schedules/schedules_test.cpp).
#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class Naive final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "naive"; }
  [[nodiscard]] std::string_view summary() const override {
    return "one microbatch at a time through all ranks; every other rank waits";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_chunks(name(), shape);
  }
  // Forward and backward alternate. The backward on the first rank is the last step of a
  // microbatch, so this order alone delays the next microbatch until then.
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t /*rank*/) const override {
    std::vector<ScheduleStep> result;
    for (std::int32_t microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      result.push_back({.kind = StepKind::Forward, .microbatch = microbatch});
      result.push_back({.kind = StepKind::Backward, .microbatch = microbatch});
    }
    return result;
  }
  [[nodiscard]] bool one_microbatch_at_a_time() const override { return true; }
  [[nodiscard]] bool is_searched() const override { return false; }
};

}  // namespace

const Schedule& naive_schedule() {
  static const Naive schedule;
  return schedule;
}

}  // namespace trainyard
