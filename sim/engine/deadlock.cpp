#include "sim/engine/deadlock.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {
namespace {

// Many rank classes block on one cause, so the first few lines are enough.
constexpr std::size_t kLinesShown = 8;

// A communication that its rank class has reached and that has not started.
struct Blocked {
  double ready_s = 0.0;
  std::uint32_t rank_class = 0;
  OpIndex op = 0;
};

// Finds the operations that block a stopped simulation and describes each in one line. A time that
// is NaN in the timeline belongs to an event that has not happened.
class Explanation {
 public:
  Explanation(const EngineInput& input, const Rendezvous& rendezvous, const Timeline& timeline)
      : input_(input), rendezvous_(rendezvous), timeline_(timeline) {}

  [[nodiscard]] std::vector<Blocked> blocked() const;
  [[nodiscard]] std::size_t unfinished() const;
  [[nodiscard]] std::size_t operations() const;
  [[nodiscard]] std::string line(const Blocked& blocked) const;

 private:
  [[nodiscard]] const Program& program(std::uint32_t rank_class) const {
    return input_.workload.programs[input_.partition.ranks[rank_class].program];
  }
  [[nodiscard]] bool ended(std::uint32_t rank_class, OpIndex op) const {
    return !std::isnan(timeline_.classes[rank_class].end_s[op]);
  }
  [[nodiscard]] bool reached(std::uint32_t rank_class, OpIndex op) const {
    return !std::isnan(timeline_.classes[rank_class].ready_s[op]);
  }
  [[nodiscard]] std::string class_name(std::uint32_t rank_class) const;
  [[nodiscard]] std::string operation_name(std::uint32_t rank_class, OpIndex op) const;
  [[nodiscard]] std::string whereabouts(std::uint32_t rank_class, OpIndex awaited) const;

  const EngineInput& input_;
  const Rendezvous& rendezvous_;
  const Timeline& timeline_;
};

// The operation that has waited longest comes first; later ones may only be consequences.
std::vector<Blocked> Explanation::blocked() const {
  std::vector<Blocked> result;
  for (std::uint32_t rank_class = 0; rank_class < timeline_.classes.size(); ++rank_class) {
    const OpTimes& times = timeline_.classes[rank_class];
    for (OpIndex op = 0; op < times.ready_s.size(); ++op) {
      if (reached(rank_class, op) && std::isnan(times.start_s[op])) {
        result.push_back({times.ready_s[op], rank_class, op});
      }
    }
  }
  std::sort(result.begin(), result.end(), [](const Blocked& a, const Blocked& b) {
    return std::tie(a.ready_s, a.rank_class, a.op) < std::tie(b.ready_s, b.rank_class, b.op);
  });
  return result;
}

std::size_t Explanation::unfinished() const {
  std::size_t count = 0;
  for (const OpTimes& times : timeline_.classes) {
    count += static_cast<std::size_t>(std::count_if(times.end_s.begin(), times.end_s.end(),
                                                    [](double end) { return std::isnan(end); }));
  }
  return count;
}

std::size_t Explanation::operations() const {
  std::size_t count = 0;
  for (const OpTimes& times : timeline_.classes) count += times.end_s.size();
  return count;
}

// For example "stage 1 (rank 4 and 3 like it)".
std::string Explanation::class_name(std::uint32_t rank_class) const {
  const RankClass& ranks = input_.partition.ranks[rank_class];
  const std::string others =
      ranks.members > 1 ? fmt::format(" and {} like it", ranks.members - 1) : "";
  return fmt::format("{} (rank {}{})", program(rank_class).name, ranks.representative, others);
}

std::string Explanation::operation_name(std::uint32_t rank_class, OpIndex op) const {
  const Operation& operation = program(rank_class).operations[op];
  const std::string microbatch =
      operation.microbatch >= 0 ? fmt::format(" of microbatch {}", operation.microbatch) : "";
  return fmt::format("{} \"{}\"{}", to_string(operation.kind),
                     input_.workload.names.at(operation.name), microbatch);
}

// Describes where a member is that has not reached the operation: the first unfinished operation of
// the stream, and if that one has not been reached either, the operation on another stream that it
// waits for.
std::string Explanation::whereabouts(std::uint32_t rank_class, OpIndex awaited) const {
  const Program& its_program = program(rank_class);
  OpIndex head = 0;
  // The search ends at `awaited` at the latest: it is on this stream and has not ended.
  while (its_program.operations[head].stream != its_program.operations[awaited].stream ||
         ended(rank_class, head)) {
    ++head;
  }
  const std::string name = operation_name(rank_class, head);
  if (reached(rank_class, head)) return fmt::format("which is at {}", name);
  for (const OpIndex before : its_program.dependencies_of(head)) {
    if (ended(rank_class, before)) continue;
    return fmt::format("whose {} waits for its own {}", name, operation_name(rank_class, before));
  }
  return fmt::format("which has not reached {}", name);
}

// Describes one blocked call: the first participant that has not arrived, and the number of the
// others.
std::string Explanation::line(const Blocked& blocked) const {
  const std::uint16_t slot = program(blocked.rank_class).operations[blocked.op].slot;
  const Rendezvous::Call group_call = rendezvous_.call_of(blocked.rank_class, blocked.op, slot);
  const std::vector<Participant>& participants =
      input_.partition.groups[group_call.group_class].participants;
  std::string first;
  std::size_t missing = 0;
  for (std::uint32_t participant = 0; participant < participants.size(); ++participant) {
    const std::uint32_t rank_class = participants[participant].rank_class;
    const std::span<const OpIndex> calls = rendezvous_.calls(group_call.group_class, participant);
    // A participant with fewer calls on the group never makes this one.
    const bool has_call = group_call.ordinal < calls.size();
    if (has_call && reached(rank_class, calls[group_call.ordinal])) continue;
    ++missing;
    if (missing > 1) continue;
    first = fmt::format("{}, {}", class_name(rank_class),
                        has_call
                            ? whereabouts(rank_class, calls[group_call.ordinal])
                            : fmt::format("which makes only {} calls of this group", calls.size()));
  }
  const std::string others = missing > 1 ? fmt::format("; and for {} more", missing - 1) : "";
  return fmt::format("\n  {}: {} waits for {}{}", class_name(blocked.rank_class),
                     operation_name(blocked.rank_class, blocked.op), first, others);
}

}  // namespace

std::string deadlock_text(const EngineInput& input, const Rendezvous& rendezvous,
                          const Timeline& timeline, double now_s) {
  const Explanation explanation(input, rendezvous, timeline);
  const std::vector<Blocked> blocked = explanation.blocked();
  const std::string when = now_s > 0.0 ? "after " + to_text(Seconds{now_s}) : "at the start";
  std::string text = fmt::format("deadlock {}: {} of {} operations can never end", when,
                                 explanation.unfinished(), explanation.operations());
  for (std::size_t index = 0; index < std::min(blocked.size(), kLinesShown); ++index) {
    text += explanation.line(blocked[index]);
  }
  if (blocked.size() > kLinesShown) {
    text += fmt::format("\n  and {} more that wait", blocked.size() - kLinesShown);
  }
  return text;
}

}  // namespace trainyard
