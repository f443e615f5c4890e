// Executes the lists of a schedule by one rule: a step starts when its rank is free and its inputs
// have arrived. play_schedule reads the times of this execution; check_schedule reads where it
// stops.
//
// The order in which ranks are tried does not change the result: the start of a step depends only
// on the end of the step before it on its rank and on the arrival of its inputs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "models/schedules/schedule.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

struct Walk {
  std::vector<std::vector<PlayedStep>> played;  // executed steps, by rank
  std::vector<std::size_t> next;  // index of the first step that is not executed, by rank
  // The missing input of the rank's next step; nothing for a rank that has executed its whole list.
  struct Missing {
    ScheduleStep input;
    std::int64_t rank = 0;  // the rank that produces it
  };
  std::vector<std::optional<Missing>> missing;
};

// Time of an output that does not exist yet.
constexpr double kNotYet = std::numeric_limits<double>::infinity();

// True if the step's output is an activation (Forward), false if it is an input gradient (Backward,
// BackwardInput).
bool is_forward(StepKind kind) { return kind == StepKind::Forward; }

class Walker {
 public:
  Walker(const ScheduleLists& lists, const PipelineShape& shape, const StepDurations& durations)
      : lists_(lists),
        shape_(shape),
        durations_(durations),
        activation_at_(static_cast<std::size_t>(virtual_stages(shape) * shape.microbatches),
                       kNotYet),
        gradient_at_(activation_at_),
        free_at_(lists.size(), 0.0) {
    walk_.played.resize(lists.size());
    walk_.next.resize(lists.size(), 0);
    walk_.missing.resize(lists.size());
  }

  // Executes every list as far as it goes. A rank that misses an input is queued at the rank that
  // produces it, and is retried when that rank has executed at least one more step. Ranks in a
  // deadlock stay in these queues.
  Walk run() {
    // Blocked ranks, by the rank they wait for.
    std::vector<std::vector<std::size_t>> waiting(lists_.size());
    std::vector<std::size_t> ready(lists_.size());
    std::iota(ready.rbegin(), ready.rend(), std::size_t{0});
    while (!ready.empty()) {
      const std::size_t rank = ready.back();
      ready.pop_back();
      const std::size_t before = walk_.next[rank];
      while (try_next(rank)) {
      }
      if (walk_.missing[rank])
        waiting[static_cast<std::size_t>(walk_.missing[rank]->rank)].push_back(rank);
      if (walk_.next[rank] == before) continue;
      ready.insert(ready.end(), waiting[rank].begin(), waiting[rank].end());
      waiting[rank].clear();
    }
    return std::move(walk_);
  }

 private:
  // Executes the rank's next step, or overlapped pair, if all its inputs exist.
  bool try_next(std::size_t rank) {
    const std::size_t index = walk_.next[rank];
    walk_.missing[rank].reset();
    if (index == lists_[rank].size()) return false;
    const auto at_rank = static_cast<std::int64_t>(rank);
    const ScheduleStep& step = lists_[rank][index];
    const bool pair = step.overlapped && index + 1 < lists_[rank].size();
    double inputs_at = arrival(step, at_rank);
    double seconds = duration(step, rank);
    if (pair && inputs_at != kNotYet) {
      const ScheduleStep& second = lists_[rank][index + 1];
      inputs_at = std::max(inputs_at, arrival(second, at_rank));
      seconds = durations_.overlapped_share * (seconds + duration(second, rank));
    }
    if (inputs_at == kNotYet) return false;
    const double start = std::max(free_at_[rank], inputs_at);
    for (std::size_t done = index; done <= index + (pair ? 1 : 0); ++done) {
      walk_.played[rank].push_back(
          {.step = lists_[rank][done], .start_s = start, .end_s = start + seconds});
      produce(lists_[rank][done], at_rank, start + seconds);
      ++walk_.next[rank];
    }
    free_at_[rank] = start + seconds;
    return true;
  }

  // Returns the time at which everything that the step reads is present. Returns kNotYet and sets
  // walk_.missing when an input does not exist.
  double arrival(const ScheduleStep& step, std::int64_t rank) {
    const ChunkId here{.rank = rank, .chunk = step.chunk};
    if (is_forward(step.kind)) {
      const std::optional<ChunkId> before = place_before(shape_, here);
      return before ? input(step, StepKind::Forward, {.reader = rank, .producer = *before}) : 0.0;
    }
    if (step.kind == StepKind::BackwardWeight) {
      return input(step, StepKind::BackwardInput, {.reader = rank, .producer = here});
    }
    const double own = input(step, StepKind::Forward, {.reader = rank, .producer = here});
    const std::optional<ChunkId> after = place_after(shape_, here);
    if (own == kNotYet || !after) return own;
    return std::max(own, input(step, StepKind::Backward, {.reader = rank, .producer = *after}));
  }

  struct Source {
    std::int64_t reader = 0;  // rank
    ChunkId producer;
  };
  // Arrival of one input. A message between two ranks takes transfer_s; a value of the same rank
  // takes no time.
  double input(const ScheduleStep& step, StepKind producer_kind, const Source& source) {
    const ChunkId& producer = source.producer;
    const auto& times = is_forward(producer_kind) ? activation_at_ : gradient_at_;
    const double at = times[slot(stage_of(shape_, producer), step.microbatch)];
    if (at == kNotYet) {
      walk_.missing[static_cast<std::size_t>(source.reader)] = {
          .input = {.kind = producer_kind,
                    .microbatch = step.microbatch,
                    .chunk = static_cast<std::int32_t>(producer.chunk)},
          .rank = producer.rank};
      return kNotYet;
    }
    return producer.rank == source.reader ? at : at + durations_.transfer_s;
  }

  void produce(const ScheduleStep& step, std::int64_t rank, double at) {
    if (step.kind == StepKind::BackwardWeight) return;
    auto& times = is_forward(step.kind) ? activation_at_ : gradient_at_;
    times[slot(stage_of(shape_, {.rank = rank, .chunk = step.chunk}), step.microbatch)] = at;
  }

  [[nodiscard]] std::size_t slot(std::int64_t stage, std::int64_t microbatch) const {
    return static_cast<std::size_t>(stage * shape_.microbatches + microbatch);
  }

  [[nodiscard]] double duration(const ScheduleStep& step, std::size_t rank) const {
    const double backward = durations_.backward_s[rank];
    const double weight = durations_.weight_s.empty() ? backward / 2.0 : durations_.weight_s[rank];
    const auto chunks = static_cast<double>(chunks_per_share(shape_));
    switch (step.kind) {
      case StepKind::Forward:
        return durations_.forward_s[rank] / chunks;
      case StepKind::Backward:
        return backward / chunks;
      case StepKind::BackwardInput:
        return (backward - weight) / chunks;
      case StepKind::BackwardWeight:
        return weight / chunks;
    }
    return 0.0;
  }

  const ScheduleLists& lists_;
  const PipelineShape& shape_;
  const StepDurations& durations_;
  std::vector<double> activation_at_;  // by virtual stage and microbatch
  std::vector<double> gradient_at_;
  std::vector<double> free_at_;  // by rank
  Walk walk_;
};

// REQUIRES: one list per rank, every step's microbatch and chunk within the shape.
[[nodiscard]] Walk walk_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                                 const StepDurations& durations);
Walk walk_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                   const StepDurations& durations) {
  TY_CHECK(std::cmp_equal(lists.size(), shape.stages), lists.size(), shape.stages);
  TY_CHECK(durations.forward_s.size() == lists.size(), durations.forward_s.size(), lists.size());
  TY_CHECK(durations.backward_s.size() == lists.size(), durations.backward_s.size(), lists.size());
  TY_CHECK(durations.weight_s.empty() || durations.weight_s.size() == lists.size(),
           durations.weight_s.size(), lists.size());
  return Walker(lists, shape, durations).run();
}

// ---- play_schedule: the times

// An activation lives from its forward until the end of its backward, or of the weight part where
// the backward is split. A rank executes one step at a time, so the order of its list is the order
// in time.
std::int64_t peak_activations(const std::vector<PlayedStep>& steps) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const PlayedStep& played : steps) {
    const StepKind kind = played.step.kind;
    if (kind == StepKind::Forward) peak = std::max(peak, ++held);
    if (kind == StepKind::Backward || kind == StepKind::BackwardWeight) --held;
  }
  return peak;
}

}  // namespace

PlayedSchedule play_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                             const StepDurations& durations) {
  Walk walk = walk_schedule(lists, shape, durations);
  PlayedSchedule result;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    TY_CHECK(walk.next[rank] == lists[rank].size(), rank, walk.next[rank]);
    double busy = 0.0;
    bool second_of_pair = false;
    for (const PlayedStep& played : walk.played[rank]) {
      // Both steps of an overlapped pair have the same times, so the busy time counts only the
      // first.
      if (!second_of_pair) busy += played.end_s - played.start_s;
      second_of_pair = !second_of_pair && played.step.overlapped;
      result.makespan_s = std::max(result.makespan_s, played.end_s);
    }
    result.busy_s.push_back(busy);
    result.peak_activations.push_back(peak_activations(walk.played[rank]));
  }
  result.ranks = std::move(walk.played);
  return result;
}

// ---- check_schedule: where the execution stops

namespace {

using Complaint = std::optional<std::string>;

// Index of each step of one (microbatch, chunk) in its rank's list.
struct Positions {
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  std::array<std::size_t, 4> of = {kAbsent, kAbsent, kAbsent, kAbsent};  // by StepKind

  [[nodiscard]] std::size_t& at(StepKind kind) { return of[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] bool has(StepKind kind) const {
    return of[static_cast<std::size_t>(kind)] != kAbsent;
  }
};

// Checks that one rank's list contains every step exactly once and in a possible order.
class RankChecker {
 public:
  RankChecker(const PipelineShape& shape, std::size_t rank)
      : shape_(shape),
        rank_(rank),
        places_(static_cast<std::size_t>(shape.microbatches * shape.chunks)) {}

  Complaint check(const std::vector<ScheduleStep>& list) {
    for (std::size_t index = 0; index < list.size(); ++index) {
      if (Complaint complaint = enter(list[index], index)) return complaint;
      if (Complaint complaint = check_pair(list, index)) return complaint;
    }
    for (std::int32_t chunk = 0; chunk < shape_.chunks; ++chunk) {
      const MicrobatchRange range = microbatches_of(shape_, chunk);
      for (std::int64_t microbatch = range.begin; microbatch < range.end; ++microbatch) {
        const auto number = static_cast<std::int32_t>(microbatch);
        if (Complaint complaint = check_place(number, chunk)) return complaint;
      }
    }
    return std::nullopt;
  }

 private:
  // Records the position of a step; reports a step that is out of range or that appears twice.
  Complaint enter(const ScheduleStep& step, std::size_t index) {
    if (step.microbatch < 0 || step.microbatch >= shape_.microbatches || step.chunk < 0 ||
        step.chunk >= shape_.chunks) {
      return fmt::format(
          "rank {} names microbatch {} of chunk {} at position {}, outside the {} "
          "microbatches and {} chunks",
          rank_, step.microbatch, step.chunk, index, shape_.microbatches, shape_.chunks);
    }
    const MicrobatchRange range = microbatches_of(shape_, step.chunk);
    if (step.microbatch < range.begin || step.microbatch >= range.end) {
      return fmt::format("rank {} has {}, but chunk {} sees microbatches {} to {} alone", rank_,
                         to_text(step, shape_), step.chunk, range.begin, range.end - 1);
    }
    std::size_t& position = place(step.microbatch, step.chunk).at(step.kind);
    if (position != Positions::kAbsent) {
      return fmt::format("rank {} has {} twice, at positions {} and {}", rank_,
                         to_text(step, shape_), position, index);
    }
    position = index;
    return std::nullopt;
  }

  // Checks that an overlapped forward is followed by the full backward of another microbatch or
  // chunk.
  Complaint check_pair(const std::vector<ScheduleStep>& list, std::size_t index) {
    const ScheduleStep& first = list[index];
    if (!first.overlapped) return std::nullopt;
    const bool whole = index + 1 < list.size() && first.kind == StepKind::Forward &&
                       list[index + 1].kind == StepKind::Backward && !list[index + 1].overlapped;
    if (whole && std::pair(first.microbatch, first.chunk) !=
                     std::pair(list[index + 1].microbatch, list[index + 1].chunk)) {
      return std::nullopt;
    }
    return fmt::format(
        "rank {} overlaps {} with what follows, which is not the full backward of another "
        "microbatch or chunk",
        rank_, to_text(first, shape_));
  }

  // Checks that one (microbatch, chunk) has a forward and then a full or a split backward.
  Complaint check_place(std::int32_t microbatch, std::int32_t chunk) {
    const auto text = [&](StepKind kind) {
      return to_text({.kind = kind, .microbatch = microbatch, .chunk = chunk}, shape_);
    };
    Positions& found = place(microbatch, chunk);
    const auto missing = [&](StepKind kind) -> Complaint {
      if (found.has(kind)) return std::nullopt;
      return fmt::format("rank {} never does {}", rank_, text(kind));
    };
    const auto ordered = [&](StepKind first, StepKind second) -> Complaint {
      if (found.at(first) < found.at(second)) return std::nullopt;
      return fmt::format("rank {} has {} before {}", rank_, text(second), text(first));
    };
    using enum StepKind;
    if (Complaint complaint = missing(Forward)) return complaint;
    const bool split = found.has(BackwardInput) || found.has(BackwardWeight);
    if (!split) {
      if (Complaint complaint = missing(Backward)) return complaint;
      return ordered(Forward, Backward);
    }
    if (found.has(Backward)) {
      return fmt::format("rank {} has both {} and a part of it", rank_, text(Backward));
    }
    if (Complaint complaint = missing(BackwardInput)) return complaint;
    if (Complaint complaint = missing(BackwardWeight)) return complaint;
    if (Complaint complaint = ordered(Forward, BackwardInput)) return complaint;
    return ordered(BackwardInput, BackwardWeight);
  }

  Positions& place(std::int32_t microbatch, std::int32_t chunk) {
    return places_[static_cast<std::size_t>(chunk * shape_.microbatches + microbatch)];
  }

  const PipelineShape& shape_;
  std::size_t rank_;
  std::vector<Positions> places_;
};

// One message of a channel. A channel carries the messages from one rank to another in one
// direction of the model.
struct Message {
  StepKind kind = StepKind::Forward;  // Forward or Backward
  std::int32_t microbatch = 0;
  std::int64_t stage = 0;  // the stage that produced the message
  bool operator==(const Message&) const = default;
};
struct Channel {
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool forward = true;
  bool backwards_running = false;
  auto operator<=>(const Channel&) const = default;
};
struct Traffic {
  std::vector<Message> sent;
  std::vector<Message> received;
};

// Lists for each channel the messages sent and received, each in the order of the rank's list.
// Chunks that run down the ranks and chunks that run up have separate channels.
std::map<Channel, Traffic> traffic_of(const ScheduleLists& lists, const PipelineShape& shape) {
  std::map<Channel, Traffic> traffic;
  for (std::size_t index = 0; index < lists.size(); ++index) {
    const auto rank = static_cast<std::int64_t>(index);
    for (const ScheduleStep& step : lists[index]) {
      if (step.kind == StepKind::BackwardWeight) continue;
      const bool forward = step.kind == StepKind::Forward;
      const StepKind kind = forward ? StepKind::Forward : StepKind::Backward;
      const ChunkId here{.rank = rank, .chunk = step.chunk};
      const auto before = place_before(shape, here);
      const auto after = place_after(shape, here);
      const auto& source = forward ? before : after;
      const auto& target = forward ? after : before;
      if (source && source->rank != rank) {
        // Sender and receiver name the channel by the direction of their own chunk. The two
        // directions differ only at the turn of a V, and there no message is sent because both
        // chunks are on one rank.
        traffic[{source->rank, rank, forward, runs_backwards(shape, step.chunk)}]
            .received.push_back({kind, step.microbatch, stage_of(shape, *source)});
      }
      if (target && target->rank != rank) {
        traffic[{rank, target->rank, forward, runs_backwards(shape, step.chunk)}].sent.push_back(
            {kind, step.microbatch, stage_of(shape, here)});
      }
    }
  }
  return traffic;
}

// Messages of a channel are delivered in order, so the sender and the receiver must have them in
// the same order.
Complaint check_message_order(const ScheduleLists& lists, const PipelineShape& shape) {
  // The lists are complete, so each channel has as many messages sent as received.
  for (const auto& [channel, traffic] : traffic_of(lists, shape)) {
    const auto [sent, received] = std::mismatch(traffic.sent.begin(), traffic.sent.end(),
                                                traffic.received.begin(), traffic.received.end());
    if (sent == traffic.sent.end()) continue;
    const char* what = channel.forward ? "activation" : "gradient";
    return fmt::format(
        "rank {} sends the {} of microbatch {} to rank {}, which expects microbatch {} first; "
        "both must run them in one order",
        channel.from, what, sent->microbatch, channel.to, received->microbatch);
  }
  return std::nullopt;
}

// Names the cycle of waiting ranks. At this point every list is complete, so each blocked rank
// waits for another blocked rank, and following these edges from any of them reaches a cycle.
std::string deadlock_text(const Walk& walk, const ScheduleLists& lists, const PipelineShape& shape,
                          std::size_t stuck) {
  std::vector<std::size_t> path;
  std::vector<bool> seen(lists.size(), false);
  std::size_t rank = stuck;
  while (!seen[rank]) {
    seen[rank] = true;
    path.push_back(rank);
    rank = static_cast<std::size_t>(walk.missing[rank]->rank);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), rank));
  std::string text = "deadlock: ";
  for (std::size_t waiting : path) {
    if (waiting != path.front()) text += "; ";
    const Walk::Missing& missing = *walk.missing[waiting];
    text += fmt::format("rank {} at {} waits for {} of rank {}", waiting,
                        to_text(lists[waiting][walk.next[waiting]], shape),
                        to_text(missing.input, shape), missing.rank);
    const auto next_of_producer = walk.next[static_cast<std::size_t>(missing.rank)];
    text += fmt::format(
        ", which is at {}",
        to_text(lists[static_cast<std::size_t>(missing.rank)][next_of_producer], shape));
  }
  return text;
}

}  // namespace

std::string to_text(const ScheduleStep& step, const PipelineShape& shape) {
  constexpr std::array letters = {'F', 'B', 'b', 'w'};
  const char letter = letters[static_cast<std::size_t>(step.kind)];
  if (shape.chunks == 1) return fmt::format("{}{}", letter, step.microbatch);
  return fmt::format("{}{}.{}", letter, step.microbatch, step.chunk);
}

std::optional<std::string> check_schedule(const ScheduleLists& lists, const PipelineShape& shape) {
  if (!std::cmp_equal(lists.size(), shape.stages)) {
    return fmt::format("there are lists for {} ranks, but {} stages", lists.size(), shape.stages);
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (Complaint complaint = RankChecker(shape, rank).check(lists[rank])) return complaint;
  }
  // Durations of zero are enough: whether the execution stops does not depend on the durations.
  const std::vector<double> no_time(lists.size(), 0.0);
  const Walk walk =
      walk_schedule(lists, shape, {.forward_s = no_time, .backward_s = no_time, .weight_s = {}});
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (walk.missing[rank]) return deadlock_text(walk, lists, shape, rank);
  }
  return check_message_order(lists, shape);
}

std::optional<std::string> check_reductions(const ScheduleLists& lists,
                                            const PipelineShape& shape) {
  if (shape.placement != StagePlacement::Bidirectional) return std::nullopt;
  std::vector<std::vector<std::int64_t>> orders;  // of stages, by rank
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    std::vector<std::int64_t>& order = orders.emplace_back();
    for (const ScheduleStep& step : lists[rank]) {
      if (step.kind == StepKind::Forward || step.kind == StepKind::BackwardInput) continue;
      const std::int64_t stage =
          stage_of(shape, {.rank = static_cast<std::int64_t>(rank), .chunk = step.chunk});
      std::erase(order, stage);  // the gradients are final after the last backward of the stage
      order.push_back(stage);
    }
  }
  // Ranks r and p-1-r hold the same two stages, so they must finish them in the same order.
  for (std::size_t rank = 0; 2 * rank < orders.size(); ++rank) {
    const std::size_t mirror = orders.size() - 1 - rank;
    const auto [here, there] = std::mismatch(orders[rank].begin(), orders[rank].end(),
                                             orders[mirror].begin(), orders[mirror].end());
    if (here == orders[rank].end()) continue;
    return fmt::format(
        "rank {} has the gradients of stage {} before those of stage {}, and rank {}, which holds "
        "both as well, the other way round: each waits for the other in their reduction",
        rank, *here, *there, mirror);
  }
  return std::nullopt;
}

}  // namespace trainyard
