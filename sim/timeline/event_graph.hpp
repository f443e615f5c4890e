// What waits for what in a finished run: stream order and dependencies within a rank class,
// meetings of groups between them.
//
//   EventGraph graph(workload, partition);
//   graph.last_cause(timeline, {0, 7});   // the operation before operation 7 that ended last
//   for (Event party : graph.meeting(graph.meeting_of({0, 9}))) ...   // who communicates with 9
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

class EventGraph {
 public:
  // Both must outlive the graph.
  EventGraph(const Workload& workload, const Partition& partition);

  [[nodiscard]] Operation operation(Event event) const {
    return program(event.rank_class).operations[event.operation];
  }
  [[nodiscard]] const Program& program(std::uint32_t rank_class) const {
    return workload_.programs[partition_.ranks[rank_class].program];
  }
  // The operation before it on its stream; none for the first.
  [[nodiscard]] Event previous(Event event) const;
  // Of what it waits for within its rank class, the one that ended last; the later issued among
  // equals; none where it waits for nothing.
  [[nodiscard]] Event last_cause(const Timeline& timeline, Event event) const;

  [[nodiscard]] bool communicates(Event event) const {
    const OpKind kind = operation(event).kind;
    return kind != OpKind::Compute && kind != OpKind::Delay;
  }
  // Meetings are numbered from 0. REQUIRES: the event communicates.
  [[nodiscard]] std::uint32_t meeting_of(Event event) const {
    return meeting_of_[event.rank_class][event.operation];
  }
  // All that meet there, by party of the group class.
  [[nodiscard]] std::span<const Event> meeting(std::uint32_t number) const {
    return meetings_[number];
  }
  [[nodiscard]] std::size_t meetings() const { return meetings_.size(); }
  // The group class and the call (index into Workload::calls) of an event that communicates.
  [[nodiscard]] std::uint32_t group_class(Event event) const;

 private:
  void number_meetings();

  const Workload& workload_;
  const Partition& partition_;
  std::vector<std::vector<OpIndex>> previous_;          // [program][operation]
  std::vector<std::vector<std::uint32_t>> meeting_of_;  // [rank class][operation]
  std::vector<std::vector<Event>> meetings_;
};

}  // namespace trainyard
