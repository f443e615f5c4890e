#include "tools/studies/search/least_play.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr double kNotYet = -1.0;

class Play {
 public:
  Play(const ScheduleLists& lists, const PipelineShape& shape, const std::vector<RankLeast>& ranks)
      : lists_(lists), shape_(shape), ranks_(ranks), next_(lists.size(), 0) {
    const auto stages = static_cast<std::size_t>(virtual_stages(shape));
    const auto microbatches = static_cast<std::size_t>(shape.microbatches);
    forward_s_.assign(stages * microbatches, kNotYet);
    backward_s_ = forward_s_;
    for (const RankLeast& rank : ranks) free_s_.push_back(rank.head_s);
    blocks_.resize(ranks.size());
  }

  [[nodiscard]] double end_s() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank)
        while (next_[rank] < lists_[rank].size() && play_next(rank)) moved = true;
    }
    double end = 0.0;
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      TY_CHECK(next_[rank] == lists_[rank].size(), rank, next_[rank]);
      end = std::max(end, free_s_[rank] + ranks_[rank].tail_s);
    }
    return end;
  }

 private:
  [[nodiscard]] double& done(std::vector<double>& times, std::int64_t stage,
                             const ScheduleStep& step) const {
    return times[static_cast<std::size_t>(stage * shape_.microbatches + step.microbatch)];
  }

  // False where an input is missing. Of a block, the backward needs not wait for the forward's
  // input, but the rank is not free before it has done both.
  bool play_next(std::size_t rank) {
    const ScheduleStep& step = lists_[rank][next_[rank]];
    const std::int64_t stage =
        stage_of(shape_, {.rank = static_cast<std::int64_t>(rank), .chunk = step.chunk});
    const StepLeast& least = ranks_[rank].of(step);
    const bool ends_block = next_[rank] > 0 && lists_[rank][next_[rank] - 1].overlapped;
    double start = ends_block ? blocks_[rank].begin_s : free_s_[rank];
    const std::optional<double> input = input_s(stage, step);
    if (!input) return false;
    start = std::max(start, *input);
    if (std::vector<double>* const output = outputs_of(step.kind))
      done(*output, stage, step) = start + least.output_s;
    if (step.overlapped) blocks_[rank] = {free_s_[rank], least.occupied_s};
    const double end = start + least.occupied_s;
    free_s_[rank] =
        ends_block ? std::max({free_s_[rank], end,
                               blocks_[rank].begin_s + blocks_[rank].forward_s + least.occupied_s})
                   : end;
    ++next_[rank];
    return true;
  }

  // When what the step reads of another stage is there; nothing while it is not known.
  [[nodiscard]] std::optional<double> input_s(std::int64_t stage, const ScheduleStep& step) {
    if (step.kind == StepKind::BackwardWeight) return 0.0;  // its rank's own input part
    const bool forward = step.kind == StepKind::Forward;
    const std::int64_t source = forward ? stage - 1 : stage + 1;
    if (source < 0 || source >= virtual_stages(shape_)) return 0.0;
    const double input = done(*outputs_of(step.kind), source, step);
    return input == kNotYet ? std::nullopt : std::optional(input);
  }

  // Where the outputs of such a step stand; none of a weight gradient's.
  [[nodiscard]] std::vector<double>* outputs_of(StepKind kind) {
    if (kind == StepKind::BackwardWeight) return nullptr;
    return kind == StepKind::Forward ? &forward_s_ : &backward_s_;
  }

  struct Block {
    double begin_s = 0.0;
    double forward_s = 0.0;
  };

  const ScheduleLists& lists_;
  const PipelineShape& shape_;
  const std::vector<RankLeast>& ranks_;
  std::vector<std::size_t> next_;
  std::vector<double> free_s_;
  std::vector<Block> blocks_;                   // of each rank, the latest
  std::vector<double> forward_s_, backward_s_;  // [virtual stage][microbatch]: outputs are there
};

// What a microbatch holds of a chunk when the step begins.
double held_before(const RankLeast& rank, ScheduleStep step) {
  if (step.kind == StepKind::Forward) return 0.0;
  step.kind = step.kind == StepKind::BackwardWeight ? StepKind::BackwardInput : StepKind::Forward;
  return rank.of(step).left_bytes;
}

// Within a block the backward may have freed all of its own before the forward allocates.
double peak_bytes(const std::vector<ScheduleStep>& steps, const RankLeast& rank) {
  double under_way = 0.0;
  double peak = rank.held_bytes;
  double of_block = 0.0;  // left by the forward that the block began with
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepLeast& least = rank.of(steps[i]);
    const bool begins_block = steps[i].overlapped && i + 1 < steps.size();
    const double freed = begins_block ? held_before(rank, steps[i + 1]) : 0.0;
    peak = std::max(peak, rank.held_bytes + under_way - of_block - freed + least.needed_bytes);
    under_way += least.left_bytes - held_before(rank, steps[i]);
    of_block = begins_block ? least.left_bytes : 0.0;
  }
  return peak;
}

}  // namespace

LayoutBound least_play(const ScheduleLists& lists, const PipelineShape& shape,
                       const std::vector<RankLeast>& ranks) {
  LayoutBound bound{.step_time_s = Play(lists, shape, ranks).end_s()};
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    bound.peak_bytes = std::max(bound.peak_bytes, peak_bytes(lists[rank], ranks[rank]));
  return bound;
}

}  // namespace trainyard
