// ZB-H2 (Qi et al. 2401.10241, section 2). Rank r runs 2(p-r)-1 forwards before its first backward,
// and holds at most 2p activations. With F = B = W no rank is idle between its first and its last
// step: each works for m(F+B+W), and the ranks are staggered by (p-1)F. Example: p = 4, m = 8 give
// 27 in total, 24 on each rank (tests/models/schedules/zero_bubble_test.cpp).
#include <algorithm>

#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

// The list of one rank while it is built.
class Rank {
 public:
  explicit Rank(std::int64_t microbatches) : count_(static_cast<std::int32_t>(microbatches)) {}

  [[nodiscard]] bool forwards_left() const { return forwards_ < count_; }
  [[nodiscard]] bool backwards_left() const { return inputs_ < count_; }
  [[nodiscard]] bool weights_ready() const { return weights_ < inputs_; }
  [[nodiscard]] std::int64_t held() const { return forwards_ - weights_; }
  void forward() { add(StepKind::Forward, forwards_++); }
  void input() { add(StepKind::BackwardInput, inputs_++); }
  void weight() { add(StepKind::BackwardWeight, weights_++); }
  [[nodiscard]] std::vector<ScheduleStep> take() { return std::move(steps_); }

 private:
  void add(StepKind kind, std::int32_t microbatch) {
    steps_.push_back({.kind = kind, .microbatch = microbatch});
  }

  std::int32_t count_;
  std::int32_t forwards_ = 0;
  std::int32_t inputs_ = 0;
  std::int32_t weights_ = 0;
  std::vector<ScheduleStep> steps_;
};

class ZbH2 final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zb_h2"; }
  [[nodiscard]] std::string_view summary() const override {
    return "split backward and more forwards ahead; no bubble at twice the memory of 1f1b";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    return refuse_chunks(name(), shape);
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    const std::int64_t limit = 2 * shape.stages;
    const std::int64_t warm_up = std::min(2 * (shape.stages - rank) - 1, shape.microbatches);
    Rank list(shape.microbatches);
    for (std::int64_t k = 0; k < warm_up; ++k) list.forward();
    while (list.backwards_left()) {
      list.input();
      if (list.forwards_left()) {
        // The first rank receives its next gradient later than the others, so it frees an
        // activation at once.
        if (list.held() == limit) list.weight();
        list.forward();
        if (rank == 0 && list.held() == limit) list.weight();
      } else {
        list.weight();
      }
    }
    while (list.weights_ready()) list.weight();
    return list.take();
  }
};

}  // namespace

const Schedule& zb_h2_schedule() {
  static const ZbH2 schedule;
  return schedule;
}

}  // namespace trainyard
