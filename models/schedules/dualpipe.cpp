// DualPipe (DeepSeek-V3 2412.19437, section 3.2.1; deepseek-ai/DualPipe): two copies of the model
// in opposite directions, half of the microbatches entering at each end; forwards overlap with
// backwards of the other direction. Bubble (p/2-1)(F&B + Bt - 3W), at most p+1 activations held. p
// = 8, m = 20, F = B = W = 1, F&B = 3: 66 (tests/models/schedules/dualpipe_test.cpp).
#include <fmt/core.h>

#include <algorithm>

#include "models/schedules/dual_steps.hpp"
#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class DualPipe final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "dualpipe"; }
  [[nodiscard]] std::string_view summary() const override {
    return "two model copies in opposite directions; forwards overlap with backwards";
  }
  [[nodiscard]] StagePlacement placement() const override { return StagePlacement::Bidirectional; }
  [[nodiscard]] std::int64_t usual_chunks() const override { return 2; }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (const auto refused = refuse_not_two_chunks(name(), shape)) return refused;
    if (shape.stages % 2 != 0) {
      return fmt::format("dualpipe needs an even number of stages, not {}; dualpipe_v takes any",
                         shape.stages);
    }
    if (shape.microbatches % 2 != 0 || shape.microbatches < 2 * shape.stages) {
      return fmt::format(
          "dualpipe needs an even number of microbatches, at least twice the {} stages, not {}; "
          "choose {} or more",
          shape.stages, shape.microbatches, 2 * shape.stages);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    const std::int64_t half = shape.stages / 2;
    const std::int64_t inner = std::min(rank, shape.stages - 1 - rank);
    const auto second = static_cast<std::int32_t>(shape.microbatches / 2);
    DualRank dual{.ahead = half - inner - 1,
                  .inner = inner,
                  .steady = shape.microbatches / 2 - shape.stages + inner + 1,
                  .middle = inner == half - 1,
                  .chunk = {0, 1},
                  .first_microbatch = {0, second}};
    if (rank >= half) {
      dual.chunk = {1, 0};
      dual.first_microbatch = {second, 0};
    }
    return dual_steps(dual);
  }
};

}  // namespace

const Schedule& dualpipe_schedule() {
  static const DualPipe schedule;
  return schedule;
}

}  // namespace trainyard
