// DualPipeV (deepseek-ai/DualPipe, dualpipev.py): DualPipe cut in half. The p ranks hold 2p stages
// in a V, so that one copy of the model suffices; the last rank hands over to itself. p ranks, m >=
// 2p: the phases of dual_steps.hpp (tests/models/schedules/dualpipe_test.cpp).
#include <fmt/core.h>

#include "models/schedules/dual_steps.hpp"
#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

class DualPipeV final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "dualpipe_v"; }
  [[nodiscard]] std::string_view summary() const override {
    return "dualpipe with one copy of the model, its stages in a V over the ranks";
  }
  [[nodiscard]] StagePlacement placement() const override { return StagePlacement::Vee; }
  [[nodiscard]] std::int64_t usual_chunks() const override { return 2; }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (const auto refused = refuse_not_two_chunks(name(), shape)) return refused;
    if (shape.microbatches < 2 * shape.stages) {
      return fmt::format("dualpipe_v needs at least {} microbatches for {} stages, not {}",
                         2 * shape.stages, shape.stages, shape.microbatches);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    return dual_steps({.ahead = shape.stages - rank - 1,
                       .inner = rank,
                       .steady = shape.microbatches - 2 * shape.stages + rank + 1,
                       .middle = rank == shape.stages - 1});
  }
};

}  // namespace

const Schedule& dualpipe_v_schedule() {
  static const DualPipeV schedule;
  return schedule;
}

}  // namespace trainyard
