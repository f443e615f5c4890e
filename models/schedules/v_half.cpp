// V-Half (Qi et al. 2405.15362): split backward, two chunks in a V, about half of the activations
// that 1F1B holds on rank 0 and half of its bubble (F = B = W). p = 4, m = 8, a step of a chunk 1:
// 57 against 66 of 1F1B, 6 half-size activations against 8
// (tests/models/schedules/zero_bubble_test.cpp).
#include "models/schedules/generators.hpp"
#include "models/schedules/vee_block.hpp"

namespace trainyard {
namespace {

class VHalf final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "v_half"; }
  [[nodiscard]] std::string_view summary() const override {
    return "stages in a V at half the memory of 1f1b and about half its bubble";
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
    return vee_block_lists(planned, {.speed_sums = {6, 7}, .activations_most = shape.stages + 2});
  }
};

}  // namespace

const Schedule& v_half_schedule() {
  static const VHalf schedule;
  return schedule;
}

}  // namespace trainyard
