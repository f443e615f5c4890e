// Why a step takes as long as it does: the critical path and the slack of operations.
//
// The critical path is the sequence of operations, each begun at the moment the one before ended,
// that leads from the start of the step to its end. The slack of another operation is how much
// later it could have ended without making the step longer.
//
// The path is found from the end. Before an operation comes the one that it waited for last in its
// rank. For communication this is looked up for the member that came last, so the path changes
// ranks there. Its pieces cover the step without holes. Time that no operation explains (the CPU
// had not issued the next one) is a piece by itself.
//
//    const EventGraph graph(workload, partition);
//    for (const PathPiece& piece : critical_path(graph, timeline)) piece.seconds();
//
// Worked: rank 0 computes 2 s and reduces with rank 1, which computed 3 s; the call takes 1 s: the
// path is rank 1's 3 s and the call; rank 0's computation has 1 s of slack
// (tests/sim/timeline/critical_path_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// An operation of a rank class.
struct Event {
  std::uint32_t rank_class = 0;
  OpIndex operation = kNone;
  [[nodiscard]] bool none() const { return operation == kNone; }
  bool operator==(const Event&) const = default;
};

// The order in which the operations of a finished run wait for one another: stream order and
// dependencies within a rank class, rendezvous of groups between classes.
//
//    EventGraph graph(workload, partition);
//    graph.last_cause(timeline, {0, 7});   // the operation before operation 7 that ended last
//    for (Event participant : graph.rendezvous(graph.rendezvous_of({0, 9}))) use(participant);
class EventGraph {
 public:
  // REQUIRES: both outlive the graph.
  EventGraph(const Workload& workload, const Partition& partition);

  [[nodiscard]] Operation operation(Event event) const {
    return program(event.rank_class).operations[event.operation];
  }
  [[nodiscard]] const Program& program(std::uint32_t rank_class) const {
    return workload_.programs[partition_.ranks[rank_class].program];
  }
  // The operation before it on its stream; none for the first.
  [[nodiscard]] Event previous(Event event) const;
  // The operation that ended last among those it waits for within its rank class. Among equals, the
  // one that was issued later. None where it waits for nothing.
  [[nodiscard]] Event last_cause(const Timeline& timeline, Event event) const;

  [[nodiscard]] bool communicates(Event event) const {
    const OpKind kind = operation(event).kind;
    return kind != OpKind::Compute && kind != OpKind::Delay;
  }
  // Rendezvous are numbered from 0. REQUIRES: the event communicates.
  [[nodiscard]] std::uint32_t rendezvous_of(Event event) const {
    return rendezvous_of_[event.rank_class][event.operation];
  }
  // The events of the rendezvous, by participant of the group class.
  [[nodiscard]] std::span<const Event> rendezvous(std::uint32_t number) const {
    return all_rendezvous_[number];
  }
  [[nodiscard]] std::size_t all_rendezvous() const { return all_rendezvous_.size(); }
  // The group class of an event that communicates.
  [[nodiscard]] std::uint32_t group_class(Event event) const;

 private:
  void number_rendezvous();

  const Workload& workload_;
  const Partition& partition_;
  std::vector<std::vector<OpIndex>> previous_;             // [program][operation]
  std::vector<std::vector<std::uint32_t>> rendezvous_of_;  // [rank class][operation]
  std::vector<std::vector<Event>> all_rendezvous_;
};

struct PathPiece {
  // The operation whose time this is; for a gap, the operation that came after it.
  Event event;
  bool gap = false;
  double start_s = 0.0;
  double end_s = 0.0;
  [[nodiscard]] double seconds() const { return end_s - start_s; }
};

// In order of time, from 0 to the makespan. Pieces without length are left out. Empty for a step
// without operations.
[[nodiscard]] std::vector<PathPiece> critical_path(const EventGraph& graph,
                                                   const Timeline& timeline);

// Total slack of every operation, [rank class][operation]. The makespan does not change when this
// operation alone ends later by that much, while all durations and the order on each stream stay as
// they are. At least 0 up to rounding. 0 along the whole critical path where no gap comes later.
[[nodiscard]] std::vector<std::vector<double>> slack_seconds(const EventGraph& graph,
                                                             const Partition& partition,
                                                             const Timeline& timeline);

}  // namespace trainyard
