// ZB-H1 (Qi et al. 2401.10241, section 2): 1F1B with a split backward. Rank r delays its weight
// gradients by r microbatches. Every rank then holds at most p activations, and the weight
// gradients fill a part of the bubble: the makespan is m(F+B+W) + (p-1)(F+B-W). Example: p = 4, m =
// 8, F = B = W = 1 give 27, compared with 33 of 1F1B (tests/models/schedules/zero_bubble_test.cpp).
#include <algorithm>

#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class ZbH1 final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zb_h1"; }
  [[nodiscard]] std::string_view summary() const override {
    return "1f1b with split backward; a third of its bubble at the same peak memory";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_chunks(name(), shape);
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    const auto count = static_cast<std::int32_t>(shape.microbatches);
    const auto delay = static_cast<std::int32_t>(std::min(rank, shape.microbatches));
    const auto warm_up =
        static_cast<std::int32_t>(std::min(shape.stages - rank - 1, shape.microbatches));
    std::vector<ScheduleStep> result;
    for (std::int32_t microbatch = 0; microbatch < warm_up; ++microbatch) {
      result.push_back({.kind = StepKind::Forward, .microbatch = microbatch});
    }
    for (std::int32_t k = 0; k < count; ++k) {
      if (warm_up + k < count) {
        result.push_back({.kind = StepKind::Forward, .microbatch = warm_up + k});
      }
      result.push_back({.kind = StepKind::BackwardInput, .microbatch = k});
      if (k >= delay) {
        result.push_back({.kind = StepKind::BackwardWeight, .microbatch = k - delay});
      }
    }
    for (std::int32_t k = count - delay; k < count; ++k) {
      result.push_back({.kind = StepKind::BackwardWeight, .microbatch = k});
    }
    return result;
  }
};

}  // namespace

const Schedule& zb_h1_schedule() {
  static const ZbH1 schedule;
  return schedule;
}

}  // namespace trainyard
