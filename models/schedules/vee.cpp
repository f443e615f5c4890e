// Schedules of two chunks a rank in a V, with a split backward: the loss is on rank 0 and every
// rank holds the same. All are planned with equal times (F = B = W), as published.
//
//   zb_v    Qi et al. 2401.10241, section 6: at most 2p half-size activations, as much as rank 0 of
//           1F1B, and no rank waits once it has begun.
//   v_half  Qi et al. 2405.15362: about half of the activations and half of the bubble of 1F1B.
//   v_min   the same, every pass as fast as it can be: a third of the activations, two thirds of
//           the bubble.
//
// p = 4, m = 8, a step of a chunk 1: 51, 57 and 59 against 66 of 1F1B, with 8, 6 and 4 half-size
// activations against its 8 (tests/models/schedules/zero_bubble_test.cpp).
#include "models/schedules/generators.hpp"
#include "models/schedules/greedy.hpp"
#include "models/schedules/vee_block.hpp"

namespace trainyard {
namespace {

struct VeeRow {
  std::string_view name;
  std::string_view summary;
  ScheduleLists (*lists)(PipelineShape planned);  // REQUIRES: placed in a V, equal times
};

class Vee final : public Schedule {
 public:
  explicit Vee(const VeeRow& row) : row_(row) {}
  [[nodiscard]] std::string_view name() const override { return row_.name; }
  [[nodiscard]] std::string_view summary() const override { return row_.summary; }
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
    return row_.lists(std::move(planned));
  }

 private:
  VeeRow row_;
};

ScheduleLists zb_v_lists(PipelineShape planned) {
  planned.activation_limit = 2 * planned.stages;
  return zero_bubble_lists(planned, durations_of(planned));
}

ScheduleLists v_half_lists(PipelineShape planned) {
  return vee_block_lists(planned, {.speed_sums = {6, 7}, .activations_most = planned.stages + 2});
}

ScheduleLists v_min_lists(PipelineShape planned) {
  return vee_block_lists(planned,
                         {.speed_sums = {4, 5}, .activations_most = 2 * planned.stages / 3 + 2});
}

}  // namespace

const Schedule& zb_v_schedule() {
  static const Vee schedule(
      {.name = "zb_v",
       .summary =
           "split backward, stages in a V; no bubble at the memory of 1f1b, twice the messages",
       .lists = zb_v_lists});
  return schedule;
}

const Schedule& v_half_schedule() {
  static const Vee schedule(
      {.name = "v_half",
       .summary = "stages in a V at half the memory of 1f1b and about half its bubble",
       .lists = v_half_lists});
  return schedule;
}

const Schedule& v_min_schedule() {
  static const Vee schedule(
      {.name = "v_min",
       .summary = "stages in a V at a third of the memory of 1f1b and two thirds of its bubble",
       .lists = v_min_lists});
  return schedule;
}

}  // namespace trainyard
