#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "models/schedules/schedule.hpp"
#include "models/schedules/walk.hpp"

namespace trainyard {
namespace {

using Complaint = std::optional<std::string>;

// Where each step of one (microbatch, chunk) stands in its rank's list.
struct Positions {
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  std::array<std::size_t, 4> of = {kAbsent, kAbsent, kAbsent, kAbsent};  // by StepKind

  [[nodiscard]] std::size_t& at(StepKind kind) { return of[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] bool has(StepKind kind) const {
    return of[static_cast<std::size_t>(kind)] != kAbsent;
  }
};

// One rank's list against its duties.
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

// One message of a channel: what travels from one rank to another, in one direction of the model.
struct Message {
  StepKind kind = StepKind::Forward;  // Forward or Backward
  std::int32_t microbatch = 0;
  std::int64_t stage = 0;  // that made it
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

// What each rank sends and receives, in its own order. Chunks that run down the ranks and chunks
// that run up have channels of their own.
std::map<Channel, Traffic> traffic_of(const ScheduleLists& lists, const PipelineShape& shape) {
  std::map<Channel, Traffic> traffic;
  for (std::size_t index = 0; index < lists.size(); ++index) {
    const auto rank = static_cast<std::int64_t>(index);
    for (const ScheduleStep& step : lists[index]) {
      if (step.kind == StepKind::BackwardWeight) continue;
      const bool forward = step.kind == StepKind::Forward;
      const StepKind kind = forward ? StepKind::Forward : StepKind::Backward;
      const ChunkPlace here{.rank = rank, .chunk = step.chunk};
      const auto before = place_before(shape, here);
      const auto after = place_after(shape, here);
      const auto& source = forward ? before : after;
      const auto& target = forward ? after : before;
      if (source && source->rank != rank) {
        // A chunk's own direction names the channel at both ends: only the turn of a vee changes
        // it, and there nothing travels.
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

Complaint check_message_order(const ScheduleLists& lists, const PipelineShape& shape) {
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

// Every list is complete, so whoever is stuck waits for another stuck rank, and following the waits
// ends in a circle. Names the circle.
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
      std::erase(order, stage);  // final with the last of its backwards
      order.push_back(stage);
    }
  }
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
