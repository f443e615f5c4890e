#include "scenarios/search/least_play.hpp"

#include <algorithm>
#include <cstddef>

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

  // False where an input is missing.
  bool play_next(std::size_t rank) {
    const ScheduleStep& step = lists_[rank][next_[rank]];
    const std::int64_t stage =
        stage_of(shape_, {.rank = static_cast<std::int64_t>(rank), .chunk = step.chunk});
    const bool forward = step.kind == StepKind::Forward;
    double start = free_s_[rank];
    const std::int64_t source = forward ? stage - 1 : stage + 1;
    if (source >= 0 && source < virtual_stages(shape_)) {
      const double input = done(forward ? forward_s_ : backward_s_, source, step);
      if (input == kNotYet) return false;
      start = std::max(start, input);
    }
    const auto chunk = static_cast<std::size_t>(step.chunk);
    const StepLeast& least =
        forward ? ranks_[rank].forward.at(chunk) : ranks_[rank].backward.at(chunk);
    done(forward ? forward_s_ : backward_s_, stage, step) = start + least.output_s;
    free_s_[rank] = start + least.occupied_s;
    ++next_[rank];
    return true;
  }

  const ScheduleLists& lists_;
  const PipelineShape& shape_;
  const std::vector<RankLeast>& ranks_;
  std::vector<std::size_t> next_;
  std::vector<double> free_s_;
  std::vector<double> forward_s_, backward_s_;  // [virtual stage][microbatch]: outputs are there
};

double peak_bytes(const std::vector<ScheduleStep>& steps, const RankLeast& rank) {
  double under_way = 0.0;
  double peak = rank.held_bytes;
  for (const ScheduleStep& step : steps) {
    const auto chunk = static_cast<std::size_t>(step.chunk);
    const bool forward = step.kind == StepKind::Forward;
    const StepLeast& least = forward ? rank.forward.at(chunk) : rank.backward.at(chunk);
    peak = std::max(peak, rank.held_bytes + under_way + least.needed_bytes);
    const double kept = rank.forward.at(chunk).kept_bytes;
    under_way += forward ? kept : -kept;
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
