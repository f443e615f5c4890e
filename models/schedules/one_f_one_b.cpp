// 1F1B, PipeDream-flush (Narayanan et al. 2104.04473, figure 4 top). Rank r runs min(p-r-1, m)
// forwards ahead, then alternates one forward and one backward, then drains. The makespan is that
// of GPipe, (m+p-1)(F+B), with at most min(p-r, m) microbatches held. Example: p = 4, m = 8, F = 1,
// B = 2 give 33, with 4 3 2 1 microbatches held (tests/models/schedules/schedules_test.cpp).
#include <algorithm>

#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class OneForwardOneBackward final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "1f1b"; }
  [[nodiscard]] std::string_view summary() const override {
    return "one forward, one backward in turn; holds at most as many microbatches as stages";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_chunks(name(), shape);
  }
  [[nodiscard]] bool is_one_f_one_b() const override { return true; }
  // On several stages each overlapped block would wait for the complete block of its neighbour.
  [[nodiscard]] bool may_overlap_pairs(std::int64_t stages) const override { return stages == 1; }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    const auto count = static_cast<std::int32_t>(shape.microbatches);
    const auto warm_up =
        static_cast<std::int32_t>(std::min(shape.stages - rank - 1, shape.microbatches));
    std::vector<ScheduleStep> result;
    for (std::int32_t microbatch = 0; microbatch < warm_up; ++microbatch) {
      result.push_back({.kind = StepKind::Forward, .microbatch = microbatch});
    }
    for (std::int32_t microbatch = 0; microbatch < count; ++microbatch) {
      if (warm_up + microbatch < count) {
        result.push_back({.kind = StepKind::Forward, .microbatch = warm_up + microbatch});
      }
      result.push_back({.kind = StepKind::Backward, .microbatch = microbatch});
    }
    return result;
  }
};

}  // namespace

const Schedule& one_f_one_b_schedule() {
  static const OneForwardOneBackward schedule;
  return schedule;
}

}  // namespace trainyard
