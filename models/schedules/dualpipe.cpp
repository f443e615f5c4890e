// DualPipe and DualPipeV: pipelines that feed microbatches from both sides to fill the bubble,
// after deepseek-ai/DualPipe.
//
// DualPipe (DeepSeek-V3 2412.19437, section 3.2.1; deepseek-ai/DualPipe) holds two copies of the
// model in opposite directions. Half of the microbatches enter at each side. Forwards overlap with
// backwards of the other direction. The bubble is (p/2-1)(F&B + Bt - 3W), with at most p+1
// activations held. Example: p = 8, m = 20, F = B = W = 1, F&B = 3 give 66
// (tests/models/schedules/dualpipe_test.cpp).
//
// DualPipeV (deepseek-ai/DualPipe, dualpipev.py) is one half of DualPipe. The p ranks hold 2p
// stages in a V, so that one copy of the model is enough; the last rank hands its activations to
// itself. It needs m >= 2p. The phases are those below (tests/models/schedules/dualpipe_test.cpp).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <queue>
#include <vector>

#include "models/schedules/generators.hpp"

namespace trainyard {

namespace {

// Position of one rank in the pipeline, and the numbers that follow from it. Phase 0 is the
// direction whose microbatches enter on the rank's side of the pipeline (DualPipeV: chunk 0); phase
// 1 is the opposite direction. DualPipe with p = 4 and m = 8: rank 0 has ahead 1, inner 0, steady
// 1; rank 1 has ahead 0, inner 1, steady 2 and is a middle rank.
struct DualRank {
  std::int64_t ahead = 0;   // ranks between this one and the middle
  std::int64_t inner = 0;   // ranks between this one and the side where phase 0 enters
  std::int64_t steady = 0;  // rounds of two overlapped pairs
  bool middle = false;      // the first pair of this rank runs without overlap
  std::array<std::int32_t, 2> chunk = {0, 1};             // of phase 0 and phase 1
  std::array<std::int32_t, 2> first_microbatch = {0, 0};  // of phase 0 and phase 1
};

// Builds the list of one rank. It numbers the microbatches of each phase in order.
class DualList {
 public:
  explicit DualList(const DualRank& rank)
      : rank_(rank), forwards_(rank.first_microbatch), backwards_(rank.first_microbatch) {}

  void forward(std::size_t phase, bool overlapped = false) {
    steps_.push_back({.kind = StepKind::Forward,
                      .microbatch = forwards_[phase]++,
                      .chunk = rank_.chunk[phase],
                      .overlapped = overlapped});
  }
  void backward(std::size_t phase) { add_backward(StepKind::Backward, phase); }
  // Appends the input gradient and queues the weight gradient.
  void input(std::size_t phase) {
    add_backward(StepKind::BackwardInput, phase);
    waiting_.push(steps_.back());
  }
  void weight() {
    steps_.push_back({.kind = StepKind::BackwardWeight,
                      .microbatch = waiting_.front().microbatch,
                      .chunk = waiting_.front().chunk});
    waiting_.pop();
  }
  void pair(std::size_t forward_phase) {
    forward(forward_phase, true);
    backward(1 - forward_phase);
  }
  [[nodiscard]] std::vector<ScheduleStep> take() { return std::move(steps_); }

 private:
  void add_backward(StepKind kind, std::size_t phase) {
    steps_.push_back(
        {.kind = kind, .microbatch = backwards_[phase]++, .chunk = rank_.chunk[phase]});
  }

  const DualRank& rank_;
  std::array<std::int32_t, 2> forwards_;
  std::array<std::int32_t, 2> backwards_;
  std::queue<ScheduleStep> waiting_;
  std::vector<ScheduleStep> steps_;
};

// Phases 1 to 3: the forwards before the first backward, and the first backwards, which are split.
void fill(const DualRank& rank, DualList& list) {
  for (std::int64_t i = 0; i < 2 * rank.ahead; ++i) list.forward(0);
  for (std::int64_t i = 0; i < rank.inner + 1; ++i) {
    list.forward(0);
    list.forward(1);
  }
  for (std::int64_t i = 0; i < rank.ahead; ++i) {
    list.input(1);
    list.weight();
    list.forward(1);
  }
}

// Phases 4 and 5: rounds of overlapped pairs in the steady state, then pairs without new forwards
// of phase 0.
void overlap(const DualRank& rank, DualList& list) {
  for (std::int64_t i = 0; i < rank.steady; ++i) {
    if (i == 0 && rank.middle) {
      list.forward(0);
      list.backward(1);
    } else {
      list.pair(0);
    }
    list.pair(1);
  }
  for (std::int64_t i = 0; i < rank.ahead; ++i) {
    list.backward(1);
    list.pair(1);
  }
}

// Phases 6 to 8: the last backwards. The second half of them is split, and their weight gradients
// fill the bubble.
void drain(const DualRank& rank, DualList& list) {
  bool split = false;
  const auto backward = [&](std::size_t phase) {
    split ? list.input(phase) : list.backward(phase);
  };
  for (std::int64_t i = 0; i < rank.inner + 1; ++i) {
    // The switch comes within the middle round, as in the published code: before its first backward
    // if `inner` is odd, after it if `inner` is even.
    const bool half_way = i == (rank.inner + 1) / 2;
    if (half_way && rank.inner % 2 == 1) split = true;
    backward(1);
    if (half_way && rank.inner % 2 == 0) split = true;
    backward(0);
  }
  for (std::int64_t i = 0; i < rank.ahead; ++i) {
    list.weight();
    list.input(0);
  }
  for (std::int64_t i = 0; i < rank.inner + 1; ++i) list.weight();
}

// Lists for one rank the eight phases that both schedules share (deepseek-ai/DualPipe, README).
std::vector<ScheduleStep> dual_steps(const DualRank& rank) {
  DualList list(rank);
  fill(rank, list);
  overlap(rank, list);
  drain(rank, list);
  return list.take();
}

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

const Schedule& dualpipe_schedule() {
  static const DualPipe schedule;
  return schedule;
}

const Schedule& dualpipe_v_schedule() {
  static const DualPipeV schedule;
  return schedule;
}

}  // namespace trainyard
