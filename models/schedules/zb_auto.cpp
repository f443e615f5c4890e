// The automatic zero-bubble schedule (Qi et al. 2401.10241, section 3): planned with the times of
// F, B, W and a message, under a limit of activations held. A limit of p has the time of ZB-H1, 2p
// of ZB-H2 (tests/models/schedules/zero_bubble_test.cpp).
#include <fmt/core.h>

#include "models/schedules/generators.hpp"
#include "models/schedules/greedy.hpp"

namespace trainyard {
namespace {

class ZbAuto final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zb_auto"; }
  [[nodiscard]] bool is_searched() const override { return false; }
  [[nodiscard]] std::string_view summary() const override {
    return "split backward planned with the steps' times under a limit of activations held";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (const auto refused = refuse_chunks(name(), shape)) return refused;
    const StepCosts& costs = shape.costs;
    if (shape.activation_limit < 0 || !(costs.forward_s > 0.0) || !(costs.input_s > 0.0) ||
        !(costs.weight_s > 0.0) || !(costs.transfer_s >= 0.0)) {
      return fmt::format(
          "zb_auto plans with times above zero and a limit of at least 1 activation");
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    return lists(shape)[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] ScheduleLists lists(const PipelineShape& shape) const override {
    PipelineShape planned = shape;
    if (planned.activation_limit == 0) planned.activation_limit = shape.stages;
    return zero_bubble_lists(planned, durations_of(planned));
  }
};

}  // namespace

const Schedule& zb_auto_schedule() {
  static const ZbAuto schedule;
  return schedule;
}

}  // namespace trainyard
