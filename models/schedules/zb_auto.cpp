// The automatic zero-bubble schedule (Qi et al. 2401.10241, section 3). It is planned with the
// times of F, B, W and of a message, under a limit of held activations. With a limit of p it takes
// the time of ZB-H1, with 2p that of ZB-H2 (tests/models/schedules/zero_bubble_test.cpp).
//
// The planner is a heuristic: a greedy list scheduler that runs once for each of 4 to 16 priority
// rules. The result is the best of these lists and of the schedules written by hand, so it is legal
// but not proven optimal.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "models/schedules/generators.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Priorities of the greedy planner.
struct Rule {
  bool forward_first = false;  // prefers the forward where a forward and a backward are both ready
  bool late_chunk_backward = false;  // prefers the backward of the later chunk
  // Waits, rather than start a W when an input arrives before that W would end.
  bool patient = false;
  // Number of activations that the forwards of the other chunks leave free.
  std::int64_t kept_for_last_chunk = 0;
};

// Simulates all ranks in order of time and lets each choose its next step by the rule. A rank is
// woken when it becomes free and when an input arrives.
class Planner {
 public:
  Planner(const PipelineShape& shape, const StepDurations& durations, const Rule& rule)
      : shape_(shape),
        durations_(durations),
        rule_(rule),
        slots_(static_cast<std::size_t>(virtual_stages(shape) * shape.microbatches)),
        forward_end_(slots_, kNever),
        input_end_(slots_, kNever),
        ranks_(static_cast<std::size_t>(shape.stages)) {
    for (RankState& rank : ranks_) {
      rank.forwards.assign(static_cast<std::size_t>(shape.chunks), 0);
      rank.inputs = rank.forwards;
    }
  }

  // Returns nothing when the rule blocks on the memory limit before all steps are done.
  std::optional<ScheduleLists> run() {
    for (std::int64_t rank = 0; rank < shape_.stages; ++rank) wakes_.emplace(0.0, rank);
    while (!wakes_.empty()) {
      const auto [now, rank] = wakes_.top();
      wakes_.pop();
      // A wake during a step is dropped, because the end of that step wakes the rank again.
      if (state(rank).free_at <= now) start_next(rank, now);
    }
    ScheduleLists lists;
    for (RankState& rank : ranks_) {
      if (std::ssize(rank.list) != 3 * shape_.microbatches * shape_.chunks) return std::nullopt;
      lists.push_back(std::move(rank.list));
    }
    return lists;
  }

 private:
  // State of one rank at the current time.
  struct RankState {
    std::vector<std::int64_t> forwards;  // number done, by chunk
    std::vector<std::int64_t> inputs;
    std::queue<ScheduleStep> weights;  // input gradient done, weight gradient not started
    std::int64_t held = 0;
    double free_at = 0.0;
    std::vector<ScheduleStep> list;
  };

  RankState& state(std::int64_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void start_next(std::int64_t rank, double now) {
    double due = kNever;
    std::optional<ScheduleStep> step = ready_step(rank, now, due);
    if (!step && !state(rank).weights.empty()) {
      // The arrival of the input wakes the rank.
      if (rule_.patient && due < now + seconds(StepKind::BackwardWeight, rank)) return;
      step = state(rank).weights.front();
    }
    if (step) start(*step, rank, now);
  }

  // The forward or backward to start now. `due` receives the time at which the earliest known input
  // arrives.
  std::optional<ScheduleStep> ready_step(std::int64_t rank, double now, double& due) {
    const auto last = static_cast<std::int32_t>(shape_.chunks - 1);
    std::vector<ScheduleStep> wanted;
    // Forwards of later chunks come first: they are nearer to their backwards, which free memory.
    for (std::int32_t chunk = last; chunk >= 0; --chunk) {
      if (const auto step = next_forward(rank, chunk)) wanted.push_back(*step);
    }
    const std::size_t forwards = wanted.size();
    for (std::int32_t at = 0; at <= last; ++at) {
      const std::int32_t chunk = rule_.late_chunk_backward ? last - at : at;
      if (const auto step = next_input(rank, chunk)) wanted.push_back(*step);
    }
    if (!rule_.forward_first) {
      std::rotate(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(forwards),
                  wanted.end());
    }
    for (const ScheduleStep& step : wanted) {
      const double at = arrival(step, rank);
      if (at <= now) return step;
      due = std::min(due, at);
    }
    return std::nullopt;
  }

  // The next forward of a chunk, unless the memory limit forbids it.
  std::optional<ScheduleStep> next_forward(std::int64_t rank, std::int32_t chunk) {
    const RankState& own = state(rank);
    const std::int64_t next = own.forwards[static_cast<std::size_t>(chunk)];
    const std::int64_t kept = chunk == shape_.chunks - 1 ? 0 : rule_.kept_for_last_chunk;
    if (next == shape_.microbatches || own.held + kept >= shape_.activation_limit) return {};
    return ScheduleStep{
        .kind = StepKind::Forward, .microbatch = static_cast<std::int32_t>(next), .chunk = chunk};
  }

  std::optional<ScheduleStep> next_input(std::int64_t rank, std::int32_t chunk) {
    const RankState& own = state(rank);
    const std::int64_t next = own.inputs[static_cast<std::size_t>(chunk)];
    if (next == own.forwards[static_cast<std::size_t>(chunk)]) return {};
    return ScheduleStep{.kind = StepKind::BackwardInput,
                        .microbatch = static_cast<std::int32_t>(next),
                        .chunk = chunk};
  }

  [[nodiscard]] double arrival(const ScheduleStep& step, std::int64_t rank) const {
    const ChunkId here{.rank = rank, .chunk = step.chunk};
    const bool forward = step.kind == StepKind::Forward;
    const auto source = forward ? place_before(shape_, here) : place_after(shape_, here);
    if (!source) return 0.0;  // no input from another chunk: the own forward is done before
    const double end = (forward ? forward_end_ : input_end_)[slot(*source, step.microbatch)];
    return source->rank == rank ? end : end + durations_.transfer_s;
  }

  // Starts the step now: sets its end, updates memory, and wakes the rank that needs its output.
  void start(const ScheduleStep& step, std::int64_t rank, double now) {
    RankState& own = state(rank);
    const auto chunk = static_cast<std::size_t>(step.chunk);
    const ChunkId here{.rank = rank, .chunk = step.chunk};
    const double end = now + seconds(step.kind, rank);
    own.free_at = end;
    own.list.push_back(step);
    wakes_.emplace(end, rank);
    if (step.kind == StepKind::BackwardWeight) {
      own.weights.pop();
      --own.held;
      return;
    }
    const bool forward = step.kind == StepKind::Forward;
    (forward ? forward_end_ : input_end_)[slot(here, step.microbatch)] = end;
    if (forward) {
      ++own.forwards[chunk];
      ++own.held;
    } else {
      ++own.inputs[chunk];
      own.weights.push(
          {.kind = StepKind::BackwardWeight, .microbatch = step.microbatch, .chunk = step.chunk});
    }
    const auto target = forward ? place_after(shape_, here) : place_before(shape_, here);
    if (target && target->rank != rank) wakes_.emplace(end + durations_.transfer_s, target->rank);
  }

  [[nodiscard]] double seconds(StepKind kind, std::int64_t rank) const {
    const auto at = static_cast<std::size_t>(rank);
    const auto chunks = static_cast<double>(chunks_per_share(shape_));
    if (kind == StepKind::Forward) return durations_.forward_s[at] / chunks;
    if (kind == StepKind::BackwardWeight) return durations_.weight_s[at] / chunks;
    return (durations_.backward_s[at] - durations_.weight_s[at]) / chunks;
  }

  [[nodiscard]] std::size_t slot(const ChunkId& place, std::int64_t microbatch) const {
    return static_cast<std::size_t>(stage_of(shape_, place) * shape_.microbatches + microbatch);
  }

  const PipelineShape& shape_;
  const StepDurations& durations_;
  Rule rule_;
  std::size_t slots_;
  // By virtual stage and microbatch, set when the step starts.
  std::vector<double> forward_end_;
  std::vector<double> input_end_;
  std::vector<RankState> ranks_;
  using Wake = std::pair<double, std::int64_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

// All rules. With one chunk the two fields about chunks have no effect and are not varied.
std::vector<Rule> rules(const PipelineShape& shape) {
  std::vector<Rule> all;
  for (const bool forward_first : {false, true}) {
    for (const bool patient : {false, true}) {
      for (const bool late : {false, true}) {
        for (const std::int64_t kept : {0, 1}) {
          if (shape.chunks == 1 && (late || kept > 0)) continue;
          all.push_back({.forward_first = forward_first,
                         .late_chunk_backward = late,
                         .patient = patient,
                         .kept_for_last_chunk = kept});
        }
      }
    }
  }
  return all;
}

// Idle time between the first and the last step of each rank, summed over the ranks.
double waiting(const PlayedSchedule& played) {
  double sum = 0.0;
  for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
    const auto& steps = played.ranks[rank];
    sum += steps.back().end_s - steps.front().start_s - played.busy_s[rank];
  }
  return sum;
}

}  // namespace

StepDurations durations_of(const PipelineShape& shape) {
  const auto stages = static_cast<std::size_t>(shape.stages);
  const auto chunks = static_cast<double>(chunks_per_share(shape));
  const StepCosts& costs = shape.costs;
  return {.forward_s = std::vector<double>(stages, chunks * costs.forward_s),
          .backward_s = std::vector<double>(stages, chunks * (costs.input_s + costs.weight_s)),
          .weight_s = std::vector<double>(stages, chunks * costs.weight_s),
          .transfer_s = costs.transfer_s};
}

ScheduleLists zero_bubble_lists(const PipelineShape& shape, const StepDurations& durations) {
  TY_CHECK(shape.activation_limit >= shape.chunks, shape.activation_limit, shape.chunks);
  std::optional<ScheduleLists> best;
  std::pair<double, double> best_cost{kNever, kNever};
  const auto consider = [&](ScheduleLists lists) {
    const PlayedSchedule played = play_schedule(lists, shape, durations);
    const std::pair cost{played.makespan_s, waiting(played)};
    if (best && !(cost < best_cost)) return;
    best_cost = cost;
    best = std::move(lists);
  };
  for (const Rule& rule : rules(shape)) {
    if (auto lists = Planner(shape, durations, rule).run()) consider(*std::move(lists));
  }
  // The schedules written by hand are candidates where the limit allows their memory.
  if (shape.chunks == 1 && shape.activation_limit >= shape.stages) {
    consider(zb_h1_schedule().lists(shape));
  }
  if (shape.chunks == 1 && shape.activation_limit >= 2 * shape.stages) {
    consider(zb_h2_schedule().lists(shape));
  }
  TY_CHECK(best.has_value(), shape.stages, shape.microbatches, shape.activation_limit);
  return *std::move(best);
}

// ---- the schedule

namespace {

class ZbAuto final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zb_auto"; }
  [[nodiscard]] bool is_searched() const override { return false; }
  [[nodiscard]] std::string_view summary() const override {
    return "split backward planned with the steps' times under a limit of activations held";
  }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (const auto refused = refuse_chunks(name(), shape)) return refused;
    const StepCosts& costs = shape.costs;
    if (shape.activation_limit < 0 || !(costs.forward_s > 0.0) || !(costs.input_s > 0.0) ||
        !(costs.weight_s > 0.0) || !(costs.transfer_s >= 0.0)) {
      return fmt::format(
          "zb_auto plans with times above zero and a limit of at least 1 activation");
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    return lists(shape)[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] ScheduleLists lists(const PipelineShape& shape) const override {
    PipelineShape planned = shape;
    if (planned.activation_limit == 0) planned.activation_limit = shape.stages;
    return zero_bubble_lists(planned, durations_of(planned));
  }
};

}  // namespace

const Schedule& zb_auto_schedule() {
  static const ZbAuto schedule;
  return schedule;
}

}  // namespace trainyard
