// V-Min (Qi et al. 2405.15362): split backward, two chunks in a V, every pass as fast as it can be:
// about a third of the activations that 1F1B holds on rank 0, two thirds of its bubble. p = 4, m =
// 8, a step of a chunk 1: 59 against 66, 4 half-size activations against 8
// (tests/models/schedules/zero_bubble_test.cpp).
#include "models/schedules/generators.hpp"
#include "models/schedules/vee_block.hpp"

namespace trainyard {
namespace {

class VMin final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "v_min"; }
  [[nodiscard]] std::string_view summary() const override {
    return "stages in a V at a third of the memory of 1f1b and two thirds of its bubble";
  }
  [[nodiscard]] StagePlacement placement() const override { return StagePlacement::Vee; }
  [[nodiscard]] std::int64_t usual_chunks() const override { return 2; }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_not_two_chunks(name(), shape);
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    return lists(shape)[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] ScheduleLists lists(const PipelineShape& shape) const override {
    PipelineShape planned = placed(*this, shape);
    planned.costs = {};
    return vee_block_lists(planned,
                           {.speed_sums = {4, 5}, .activations_most = 2 * shape.stages / 3 + 2});
  }
};

}  // namespace

const Schedule& v_min_schedule() {
  static const VMin schedule;
  return schedule;
}

}  // namespace trainyard
