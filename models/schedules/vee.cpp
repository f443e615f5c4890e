// Schedules with two chunks per rank in a V and a split backward. The loss is on rank 0, and every
// rank holds the same number of activations. As published, all are laid out for equal times (F = B
// = W).
//
//    zb_v    Qi et al. 2401.10241, section 6. It holds at most 2p half-size activations, as many
//            as rank 0 of 1F1B, and no rank waits once it has started. From 2p - 1 microbatches on,
//            all ranks repeat one round, F0 B0 W0 F1 B1 W1. Where F, B and W differ, the schedule
//            then loses at most one longer step per rank. With fewer microbatches the schedule is
//            the shorter of two, at the times of the plan: the planned order, and that round
//            without the microbatches that do not exist.
//    v_half  Qi et al. 2405.15362. It has about half of the activations and half of the bubble of
//            1F1B.
//    v_min   The same paper, every pass as fast as possible: a third of the activations, two
//            thirds of the bubble. A round is three forwards or three backwards in sequence on
//            neighbouring ranks. Where times differ, a microbatch therefore takes
//            max(F + B + W, 3F, 3B), which is 3.6 instead of 3 at F = 1, B = 1.2, W = 0.8. This
//            is as published (the paper's O(n)), and it does not hold for v_half and zb_v.
//
// Example: p = 4, m = 8, each step of a chunk takes 1: 51, 57 and 59, compared with 66 of 1F1B,
// with 8, 6 and 4 half-size activations, compared with 8
// (tests/models/schedules/zero_bubble_test.cpp).
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "models/schedules/generators.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// ---- a repeated block
//
// A block (Qi et al. 2405.15362, section 3) is the six steps of one microbatch on each rank. It is
// repeated with a period of six steps. The speed at which the four passes travel over the ranks
// sets how long an activation lives, and therefore the memory.
//
//    vee_block_lists(shape, {.speed_sums = {4}, .activations_most = 4});

struct VeeBlockGoal {
  // Steps that the four passes (F0 down, F1 up, B1 down, B0 up) take together from one rank to the
  // next. An activation of rank 0 lives about p times that. 12 is ZB-V, 6 is half of it, 4 a third.
  std::vector<std::int64_t> speed_sums;
  // Limit of chunk activations. If no block meets it, the nearest one is taken.
  std::int64_t activations_most = 0;
};

constexpr std::int64_t kPeriod = 6;  // F, B and W of two chunks
using Speeds = std::array<std::int64_t, 4>;

struct BlockStep {
  std::int64_t time = 0;
  StepKind kind = StepKind::Forward;
  std::int32_t chunk = 0;
};

// The steps of the block on one rank. No two have the same time modulo the period, so that
// repetitions do not collide.
class BlockRank {
 public:
  // Adds the step at the first free time from `earliest` on, and returns that time.
  std::int64_t put(StepKind kind, std::int32_t chunk, std::int64_t earliest) {
    const auto residue = [](std::int64_t time) { return static_cast<std::size_t>(time % kPeriod); };
    while (taken_[residue(earliest)]) ++earliest;
    taken_[residue(earliest)] = true;
    steps_.push_back({.time = earliest, .kind = kind, .chunk = chunk});
    return earliest;
  }

  // The steps of all microbatches, sorted by time.
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

// `turn` in lists_of is the time from the last forward to the first backward on rank 0. Where the
// passes of neighbouring microbatches would collide on a rank, a later turn lets them pass. The
// published blocks do the same for an even p (v_half) or one that 3 divides (v_min).
constexpr std::int64_t kTurnMost = 3;

ScheduleLists lists_of(const PipelineShape& shape, const Speeds& speeds, std::int64_t turn) {
  std::vector<BlockRank> ranks(static_cast<std::size_t>(shape.stages));
  std::vector<std::int64_t> input_of_last_chunk;
  // `time` is that of the step put last. The subtraction before each loop cancels the speed that
  // its first round adds.
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

// All combinations of four speeds whose sum is one of the goal's.
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

// A block, and the cost by which it is compared with others: activations above the limit, makespan,
// activations.
struct Block {
  Speeds speeds = {};
  std::int64_t turn = 1;
};
using BlockCost = std::tuple<std::int64_t, double, std::int64_t>;

// A further microbatch adds one period to the makespan of every block and changes no peak once the
// pipeline is full, so that a short step decides which block is shorter. The longest block lasts
// about 7p steps, which is 7p / 6 microbatches, so 4p fill the pipeline
// (ControllableMemory.AFullPipelineGrowsByTheWorkOfAMicrobatch).
constexpr std::int64_t kMicrobatchesCompared = 4;

// Returns the shortest of the blocks that meet the goal, for F = B = W. It tries every combination
// of speeds and turns, and plays each; activations above the limit count before the makespan.
Block best_block(PipelineShape shape, const VeeBlockGoal& goal) {
  shape.microbatches = std::min(shape.microbatches, kMicrobatchesCompared * shape.stages);
  const StepDurations equal = durations_of(shape);
  Block best;
  std::optional<BlockCost> best_cost;
  // A later turn is accepted only if it is shorter, not if it only holds fewer activations: at p =
  // 16 one activation less costs 3 steps.
  std::int64_t excess_least = 0;
  for (std::int64_t turn = 1; turn <= kTurnMost; ++turn) {
    for (const Speeds& speeds : speeds_of(goal)) {
      const PlayedSchedule played = play_schedule(lists_of(shape, speeds, turn), shape, equal);
      const std::int64_t peak =
          *std::max_element(played.peak_activations.begin(), played.peak_activations.end());
      const BlockCost cost{std::max(excess_least, peak - goal.activations_most), played.makespan_s,
                           peak};
      if (best_cost && *best_cost <= cost) continue;
      best_cost = cost;
      best = {.speeds = speeds, .turn = turn};
    }
    excess_least = std::get<0>(best_cost.value());
  }
  return best;
}

ScheduleLists vee_block_lists(const PipelineShape& shape, const VeeBlockGoal& goal) {
  TY_CHECK(shape.placement == StagePlacement::Vee && shape.chunks == 2, shape.chunks);
  const Block best = best_block(shape, goal);
  return lists_of(shape, best.speeds, best.turn);
}

// ---- the schedules

struct VeeRow {
  std::string_view name;
  std::string_view summary;
  // REQUIRES: the placement is Vee; `planned` has equal times; `costs` are those of the plan.
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
    return row_.lists(planned, shape.costs);
  }

 private:
  VeeRow row_;
};

// One rank of zb_v where there are enough microbatches for its round. Chunk 0 runs down the ranks,
// chunk 1 back up.
class VeeRound {
 public:
  VeeRound(const PipelineShape& shape, std::int64_t rank)
      : microbatches_(shape.microbatches), stages_(shape.stages), rank_(rank) {}

  std::vector<ScheduleStep> steps() {
    // Phases in order: forwards of chunk 0 until the first microbatch comes back up, forwards of
    // both chunks, the first backwards of chunk 1, and the round. The last backwards of ranks
    // further down come without their weight gradients, which fill the end of the list.
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

// Builds the round for `microbatches` and removes the steps of those that the shape does not have.
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

// With few microbatches, an order that is planned for equal times may be much longer at other
// times; the round is then the shorter one. The round has the same order for fewer microbatches, so
// that one microbatch less never takes longer.
ScheduleLists zb_v_lists(PipelineShape planned, const StepCosts& costs) {
  const std::int64_t round = 2 * planned.stages - 1;
  if (planned.microbatches >= round) return round_lists(planned, planned.microbatches);
  PipelineShape real = planned;
  real.costs = costs;
  const auto makespan = [&](const ScheduleLists& lists) {
    return play_schedule(lists, real, durations_of(real)).makespan_s;
  };
  const ScheduleLists repeated = round_lists(planned, round);
  planned.activation_limit = 2 * planned.stages;
  const ScheduleLists laid_out = zero_bubble_lists(planned, durations_of(planned));
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
