// ZB-V (Qi et al. 2401.10241, section 6): two chunks a rank in a V, so that the loss is on rank 0
// and every rank holds the same: at most 2p half-size activations, as much as rank 0 of 1F1B. With
// F = B = W no rank waits once it has begun. p = 4, m = 8, a step of a chunk 1: 51
// (tests/models/schedules/zero_bubble_test.cpp).
#include "models/schedules/generators.hpp"
#include "models/schedules/greedy.hpp"

namespace trainyard {
namespace {

class ZbV final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zb_v"; }
  [[nodiscard]] std::string_view summary() const override {
    return "split backward, stages in a V; no bubble at the memory of 1f1b, twice the messages";
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
  // Planned with equal times, as published.
  [[nodiscard]] ScheduleLists lists(const PipelineShape& shape) const override {
    PipelineShape planned = placed(*this, shape);
    planned.activation_limit = 2 * shape.stages;
    planned.costs = {};
    return zero_bubble_lists(planned, durations_of(planned));
  }
};

}  // namespace

const Schedule& zb_v_schedule() {
  static const ZbV schedule;
  return schedule;
}

}  // namespace trainyard
