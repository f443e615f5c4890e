// Schedules of two chunks a rank in a V, with a split backward: the loss is on rank 0 and every
// rank holds the same. All are laid out for equal times (F = B = W), as published.
//
//   zb_v    Qi et al. 2401.10241, section 6: at most 2p half-size activations, as much as rank 0 of
//           1F1B, and no rank waits once it has begun. From 2p - 1 microbatches on all ranks repeat
//           one round, F0 B0 W0 F1 B1 W1, so that where F, B and W are not of one length it still
//           loses no more than a longer step a rank. With fewer it is the shorter, at the times of
//           the plan, of what is planned and of that round without the microbatches too many.
//   v_half  Qi et al. 2405.15362: about half of the activations and half of the bubble of 1F1B.
//   v_min   the same, every pass as fast as it can be: a third of the activations, two thirds of
//           the bubble. A round is three forwards or three backwards in turn on neighbouring ranks,
//           so that where times differ it takes max(F + B + W, 3F, 3B) for a microbatch, 3.6 in
//           place of 3 at F = 1, B = 1.2, W = 0.8: as published (the paper's O(n)), and of v_half
//           and zb_v not true.
//
// p = 4, m = 8, a step of a chunk 1: 51, 57 and 59 against 66 of 1F1B, with 8, 6 and 4 half-size
// activations against its 8 (tests/models/schedules/zero_bubble_test.cpp).
#include <array>
#include <utility>

#include "models/schedules/generators.hpp"
#include "models/schedules/greedy.hpp"
#include "models/schedules/vee_block.hpp"

namespace trainyard {
namespace {

struct VeeRow {
  std::string_view name;
  std::string_view summary;
  // REQUIRES: placed in a V; `planned` has equal times, `costs` are those of the plan.
  ScheduleLists (*lists)(PipelineShape planned, const StepCosts& costs);
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
    return row_.lists(std::move(planned), shape.costs);
  }

 private:
  VeeRow row_;
};

// One rank of zb_v where there are microbatches enough for its round. Chunk 0 goes down the ranks,
// chunk 1 comes back.
class VeeRound {
 public:
  VeeRound(const PipelineShape& shape, std::int64_t rank)
      : microbatches_(shape.microbatches), stages_(shape.stages), rank_(rank) {}

  std::vector<ScheduleStep> steps() {
    const std::int64_t to_the_turn = stages_ - rank_;
    repeat(2 * to_the_turn - 1, [this] { forward(0); });
    repeat(rank_, [this] { forward(1), forward(0); });
    repeat(to_the_turn, [this] { forward(1), input(1), weight(1); });
    repeat(microbatches_ - stages_, [this] {
      if (done_[0].forwards < microbatches_) forward(0);
      input(0), weight(0), forward(1), input(1), weight(1);
    });
    repeat(rank_, [this] { input(0), input(1); });
    repeat(to_the_turn, [this] { input(0), weight(0); });
    while (done_[1].weights < microbatches_) weight(1);
    while (done_[0].weights < microbatches_) weight(0);
    return std::move(steps_);
  }

 private:
  struct Done {
    std::int32_t forwards = 0;
    std::int32_t inputs = 0;
    std::int32_t weights = 0;
  };

  template <class Steps>
  static void repeat(std::int64_t times, const Steps& steps) {
    for (std::int64_t i = 0; i < times; ++i) steps();
  }
  Done& of(std::int32_t chunk) { return done_[static_cast<std::size_t>(chunk)]; }
  void forward(std::int32_t chunk) { add(StepKind::Forward, of(chunk).forwards++, chunk); }
  void input(std::int32_t chunk) { add(StepKind::BackwardInput, of(chunk).inputs++, chunk); }
  void weight(std::int32_t chunk) { add(StepKind::BackwardWeight, of(chunk).weights++, chunk); }
  void add(StepKind kind, std::int32_t microbatch, std::int32_t chunk) {
    steps_.push_back({.kind = kind, .microbatch = microbatch, .chunk = chunk});
  }

  std::int64_t microbatches_;
  std::int64_t stages_;
  std::int64_t rank_;
  std::array<Done, 2> done_ = {};
  std::vector<ScheduleStep> steps_;
};

ScheduleLists round_lists(PipelineShape shape, std::int64_t microbatches) {
  const std::int64_t kept = std::exchange(shape.microbatches, microbatches);
  ScheduleLists lists;
  for (std::int64_t rank = 0; rank < shape.stages; ++rank) {
    lists.push_back(VeeRound(shape, rank).steps());
    std::erase_if(lists.back(),
                  [kept](const ScheduleStep& step) { return step.microbatch >= kept; });
  }
  return lists;
}

// An order planned for equal times may lose much at others, where the round is the shorter; it
// keeps its order among fewer microbatches, so that one less never takes longer.
ScheduleLists zb_v_lists(PipelineShape planned, const StepCosts& costs) {
  const std::int64_t round = 2 * planned.stages - 1;
  if (planned.microbatches >= round) return round_lists(planned, planned.microbatches);
  PipelineShape real = planned;
  real.costs = costs;
  const auto makespan = [&](const ScheduleLists& lists) {
    return play_schedule(lists, real, durations_of(real)).makespan_s;
  };
  ScheduleLists repeated = round_lists(planned, round);
  planned.activation_limit = 2 * planned.stages;
  ScheduleLists laid_out = zero_bubble_lists(planned, durations_of(planned));
  return makespan(laid_out) < makespan(repeated) ? laid_out : repeated;
}

ScheduleLists v_half_lists(PipelineShape planned, const StepCosts&) {
  return vee_block_lists(planned, {.speed_sums = {6, 7}, .activations_most = planned.stages + 2});
}

ScheduleLists v_min_lists(PipelineShape planned, const StepCosts&) {
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
