// GPipe (Huang et al. 1811.06965): all forwards, then all backwards in reverse order. The makespan
// is (m+p-1)(F+B) for equal stages, and every rank holds all m microbatches after the last forward.
// Example: p = 4, m = 8, F = 1, B = 2 give 33 (tests/models/schedules/schedules_test.cpp).
#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class GPipe final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "gpipe"; }
  [[nodiscard]] bool is_searched() const override { return false; }
  [[nodiscard]] std::string_view summary() const override {
    return "all forwards, then all backwards in reverse; holds every microbatch";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_chunks(name(), shape);
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t /*rank*/) const override {
    const auto count = static_cast<std::int32_t>(shape.microbatches);
    std::vector<ScheduleStep> result;
    for (std::int32_t microbatch = 0; microbatch < count; ++microbatch) {
      result.push_back({.kind = StepKind::Forward, .microbatch = microbatch});
    }
    for (std::int32_t microbatch = count - 1; microbatch >= 0; --microbatch) {
      result.push_back({.kind = StepKind::Backward, .microbatch = microbatch});
    }
    return result;
  }
};

}  // namespace

const Schedule& gpipe_schedule() {
  static const GPipe schedule;
  return schedule;
}

}  // namespace trainyard
