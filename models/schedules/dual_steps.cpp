#include "models/schedules/dual_steps.hpp"

#include <queue>

namespace trainyard {
namespace {

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
  // The input gradient now; the weight gradient waits its turn.
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

// Forwards ahead of the first backward, and the first backwards, split.
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

// The last backwards; from half-way on they are split, and their weight gradients fill the bubble.
void drain(const DualRank& rank, DualList& list) {
  bool split = false;
  const auto backward = [&](std::size_t phase) {
    split ? list.input(phase) : list.backward(phase);
  };
  for (std::int64_t i = 0; i < rank.inner + 1; ++i) {
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

}  // namespace

std::vector<ScheduleStep> dual_steps(const DualRank& rank) {
  DualList list(rank);
  fill(rank, list);
  overlap(rank, list);
  drain(rank, list);
  return list.take();
}

}  // namespace trainyard
