#include "models/schedules/vee_block.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "models/schedules/greedy.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kPeriod = 6;  // F, B and W of two chunks
using Speeds = std::array<std::int64_t, 4>;

struct BlockStep {
  std::int64_t time = 0;
  StepKind kind = StepKind::Forward;
  std::int32_t chunk = 0;
};

// The block's steps on one rank; no two at one time modulo the period, so that repetitions fit.
class BlockRank {
 public:
  std::int64_t put(StepKind kind, std::int32_t chunk, std::int64_t earliest) {
    const auto residue = [](std::int64_t time) { return static_cast<std::size_t>(time % kPeriod); };
    while (taken_[residue(earliest)]) ++earliest;
    taken_[residue(earliest)] = true;
    steps_.push_back({.time = earliest, .kind = kind, .chunk = chunk});
    return earliest;
  }

  [[nodiscard]] std::vector<ScheduleStep> repeated(std::int64_t microbatches) const {
    std::vector<std::pair<std::int64_t, ScheduleStep>> timed;
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (const BlockStep& step : steps_) {
        timed.emplace_back(step.time + kPeriod * microbatch,
                           ScheduleStep{.kind = step.kind,
                                        .microbatch = static_cast<std::int32_t>(microbatch),
                                        .chunk = step.chunk});
      }
    }
    std::sort(timed.begin(), timed.end());
    std::vector<ScheduleStep> list;
    for (const auto& [time, step] : timed) list.push_back(step);
    return list;
  }

 private:
  std::vector<BlockStep> steps_;
  std::array<bool, kPeriod> taken_{};
};

// `turn`: from the last forward to the first backward, on rank 0. Where the passes of neighbouring
// microbatches would meet on a rank, a later one lets them by, as the published blocks do for an
// even p (v_half) or one that 3 divides (v_min).
constexpr std::int64_t kTurnMost = 3;

ScheduleLists lists_of(const PipelineShape& shape, const Speeds& speeds, std::int64_t turn) {
  std::vector<BlockRank> ranks(static_cast<std::size_t>(shape.stages));
  std::vector<std::int64_t> input_of_last_chunk;
  std::int64_t time = -speeds[0];
  for (BlockRank& rank : ranks) time = rank.put(StepKind::Forward, 0, time + speeds[0]);
  time += 1 - speeds[1];
  for (auto rank = ranks.rbegin(); rank != ranks.rend(); ++rank) {
    time = rank->put(StepKind::Forward, 1, time + speeds[1]);
  }
  time += turn - speeds[2];
  for (BlockRank& rank : ranks) {
    time = rank.put(StepKind::BackwardInput, 1, time + speeds[2]);
    input_of_last_chunk.push_back(time);
  }
  time += 1 - speeds[3];
  for (std::size_t at = ranks.size(); at-- > 0;) {
    BlockRank& rank = ranks[at];
    time = rank.put(StepKind::BackwardInput, 0, time + speeds[3]);
    rank.put(StepKind::BackwardWeight, 1, input_of_last_chunk[at] + 1);
    rank.put(StepKind::BackwardWeight, 0, time + 1);
  }
  ScheduleLists lists;
  for (const BlockRank& rank : ranks) lists.push_back(rank.repeated(shape.microbatches));
  return lists;
}

std::vector<Speeds> speeds_of(const VeeBlockGoal& goal) {
  std::vector<Speeds> all;
  const std::int64_t most = *std::max_element(goal.speed_sums.begin(), goal.speed_sums.end()) - 3;
  for (std::int64_t a = 1; a <= most; ++a) {
    for (std::int64_t b = 1; b <= most; ++b) {
      for (std::int64_t c = 1; c <= most; ++c) {
        for (std::int64_t d = 1; d <= most; ++d) {
          const auto& sums = goal.speed_sums;
          if (std::find(sums.begin(), sums.end(), a + b + c + d) != sums.end()) {
            all.push_back({a, b, c, d});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

ScheduleLists vee_block_lists(const PipelineShape& shape, const VeeBlockGoal& goal) {
  TY_CHECK(shape.placement == StagePlacement::Vee && shape.chunks == 2, shape.chunks);
  const StepDurations equal = durations_of(shape);
  std::optional<ScheduleLists> best;
  std::tuple<std::int64_t, double, std::int64_t> best_cost;
  // Later turns are taken to be shorter, not to hold less: at p = 16 one activation costs 3 steps.
  std::int64_t excess_least = 0;
  for (std::int64_t turn = 1; turn <= kTurnMost; ++turn) {
    for (const Speeds& speeds : speeds_of(goal)) {
      ScheduleLists lists = lists_of(shape, speeds, turn);
      const PlayedSchedule played = play_schedule(lists, shape, equal);
      const std::int64_t peak =
          *std::max_element(played.peak_activations.begin(), played.peak_activations.end());
      const std::tuple cost{std::max(excess_least, peak - goal.activations_most), played.makespan_s,
                            peak};
      if (best && best_cost <= cost) continue;
      best_cost = cost;
      best = std::move(lists);
    }
    excess_least = std::get<0>(best_cost);
  }
  TY_CHECK(best.has_value(), shape.stages);
  return *std::move(best);
}

}  // namespace trainyard
