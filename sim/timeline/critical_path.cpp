#include "sim/timeline/critical_path.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

// Finds for each operation the one before it on its stream; programs do not store these edges.
EventGraph::EventGraph(const Workload& workload, const Partition& partition)
    : workload_(workload), partition_(partition) {
  for (const Program& program : workload.programs) {
    std::vector<OpIndex>& previous = previous_.emplace_back();
    std::vector<OpIndex> last(workload.streams.size(), kNone);
    previous.reserve(program.operations.size());
    for (const Operation& op : program.operations) {
      OpIndex& before = last.at(op.stream);
      const auto own = static_cast<OpIndex>(previous.size());
      previous.push_back(before);
      before = own;
    }
  }
  number_rendezvous();
}

// The i-th call of a participant, in the order of its program, matches the i-th call of every other
// participant of the group class.
void EventGraph::number_rendezvous() {
  struct Calls {
    std::vector<std::vector<OpIndex>> of_participant;
    std::uint32_t first_rendezvous = 0;
  };
  std::vector<Calls> groups(partition_.groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group)
    groups[group].of_participant.resize(partition_.groups[group].participants.size());
  rendezvous_of_.resize(partition_.ranks.size());
  for (std::uint32_t rank_class = 0; rank_class < partition_.ranks.size(); ++rank_class) {
    const OperationList& operations = program(rank_class).operations;
    rendezvous_of_[rank_class].assign(operations.size(), kNone);
    for (OpIndex op = 0; op < operations.size(); ++op) {
      if (!communicates({rank_class, op})) continue;
      const SlotTarget place = partition_.places.at(rank_class).at(operations[op].slot);
      groups.at(place.group_class).of_participant.at(place.participant).push_back(op);
    }
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto first = static_cast<std::uint32_t>(all_rendezvous_.size());
    for (std::size_t participant = 0; participant < groups[group].of_participant.size();
         ++participant) {
      const std::uint32_t rank_class =
          partition_.groups[group].participants[participant].rank_class;
      const std::vector<OpIndex>& calls = groups[group].of_participant[participant];
      for (std::uint32_t i = 0; i < calls.size(); ++i) {
        if (first + i >= all_rendezvous_.size()) all_rendezvous_.emplace_back();
        all_rendezvous_[first + i].push_back({rank_class, calls[i]});
        rendezvous_of_[rank_class][calls[i]] = first + i;
      }
    }
  }
}

Event EventGraph::previous(Event event) const {
  const std::uint32_t program = partition_.ranks[event.rank_class].program;
  return {event.rank_class, previous_[program][event.operation]};
}

// The cause that ended last; among equals, the one that was issued last.
Event EventGraph::last_cause(const Timeline& timeline, Event event) const {
  const std::vector<double>& end_s = timeline.classes[event.rank_class].end_s;
  Event cause = previous(event);
  for (const OpIndex other : program(event.rank_class).dependencies_of(event.operation)) {
    const bool later = cause.none() || end_s[other] > end_s[cause.operation] ||
                       (end_s[other] == end_s[cause.operation] && other > cause.operation);
    if (later) cause.operation = other;
  }
  return cause;
}

std::uint32_t EventGraph::group_class(Event event) const {
  return partition_.places[event.rank_class][operation(event).slot].group_class;
}

namespace {

constexpr double kRounding = 1e-12;  // relative to the whole run

// The operation that ends last; among equals, the first in the order of (rank class, operation).
Event last_of_all(const Timeline& timeline) {
  Event last;
  double end_s = -1.0;
  for (std::uint32_t rank_class = 0; rank_class < timeline.classes.size(); ++rank_class) {
    const std::vector<double>& ends = timeline.classes[rank_class].end_s;
    for (OpIndex op = 0; op < ends.size(); ++op) {
      if (ends[op] <= end_s) continue;
      end_s = ends[op];
      last = {rank_class, op};
    }
  }
  return last;
}

// The member that came last to a rendezvous.
Event last_to_come(const EventGraph& graph, const Timeline& timeline, Event event) {
  if (!graph.communicates(event)) return event;
  const auto ready = [&](Event e) { return timeline.classes[e.rank_class].ready_s[e.operation]; };
  for (const Event participant : graph.rendezvous(graph.rendezvous_of(event)))
    if (ready(participant) > ready(event)) event = participant;
  return event;
}

// The latest ends that keep the makespan: the backward pass of the critical path method. An event
// is settled when everything that waits for it is; the members of a rendezvous are settled
// together. Cost: proportional to operations and edges.
class LatestEnds {
 public:
  LatestEnds(const EventGraph& graph, const Partition& partition, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), all_rendezvous_(graph.all_rendezvous()) {
    for (std::uint32_t rank_class = 0; rank_class < partition.ranks.size(); ++rank_class) {
      const std::size_t count = graph.program(rank_class).operations.size();
      latest_.emplace_back(count, timeline.makespan_s);
      waiting_.emplace_back(count, 0);
      for (OpIndex op = 0; op < count; ++op)
        for_each_cause({rank_class, op}, [&](Event cause) { ++waiting(cause); });
    }
    for (std::uint32_t number = 0; number < all_rendezvous_.size(); ++number) {
      all_rendezvous_[number] = {static_cast<std::uint32_t>(graph.rendezvous(number).size()),
                                 timeline.makespan_s};
    }
  }

  std::vector<std::vector<double>> slack() {
    for (std::uint32_t rank_class = 0; rank_class < latest_.size(); ++rank_class)
      for (OpIndex op = 0; op < latest_[rank_class].size(); ++op)
        if (waiting({rank_class, op}) == 0) open_.push_back({rank_class, op});
    while (!open_.empty()) {
      const Event event = open_.back();
      open_.pop_back();
      settle(event);
    }
    for (std::uint32_t rank_class = 0; rank_class < latest_.size(); ++rank_class) {
      const std::vector<double>& end_s = timeline_.classes[rank_class].end_s;
      for (OpIndex op = 0; op < end_s.size(); ++op) latest_[rank_class][op] -= end_s[op];
    }
    return std::move(latest_);
  }

 private:
  struct Rendezvous {
    std::uint32_t left = 0;  // participants whose latest end is not known yet
    double latest_s = 0.0;
  };

  template <class Visit>
  void for_each_cause(Event event, const Visit& visit) const {
    const Event before = graph_.previous(event);
    if (!before.none()) visit(before);
    const Program& program = graph_.program(event.rank_class);
    for (const OpIndex other : program.dependencies_of(event.operation))
      visit(Event{event.rank_class, other});
  }
  std::uint32_t& waiting(Event event) { return waiting_[event.rank_class][event.operation]; }
  double& latest(Event event) { return latest_[event.rank_class][event.operation]; }
  [[nodiscard]] double duration(Event event) const {
    const OpTimes& times = timeline_.classes[event.rank_class];
    return times.end_s[event.operation] - times.start_s[event.operation];
  }

  // Everything that waits for the event is settled. Computes its latest start, which is a latest
  // end for its causes.
  void settle(Event event) {
    if (!graph_.communicates(event)) return begin_by(event, latest(event) - duration(event));
    Rendezvous& rendezvous = all_rendezvous_[graph_.rendezvous_of(event)];
    rendezvous.latest_s = std::min(rendezvous.latest_s, latest(event));
    if (--rendezvous.left > 0) return;
    for (const Event participant : graph_.rendezvous(graph_.rendezvous_of(event))) {
      latest(participant) = rendezvous.latest_s;
      begin_by(participant, rendezvous.latest_s - duration(participant));
    }
  }

  void begin_by(Event event, double start_s) {
    for_each_cause(event, [&](Event cause) {
      latest(cause) = std::min(latest(cause), start_s);
      if (--waiting(cause) == 0) open_.push_back(cause);
    });
  }

  const EventGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::vector<double>> latest_;
  std::vector<std::vector<std::uint32_t>> waiting_;  // unsettled operations that wait for it
  std::vector<Rendezvous> all_rendezvous_;
  std::vector<Event> open_;
};

}  // namespace

// Walks backwards over causes. Each step covers the time from the cause's end, so the pieces have
// no holes. For communication the walk goes on at the member that came last, because only that one
// decided when the call started.
std::vector<PathPiece> critical_path(const EventGraph& graph, const Timeline& timeline) {
  std::vector<PathPiece> backwards;
  const auto push = [&](Event event, bool gap, double start_s, double end_s) {
    if (end_s > start_s) backwards.push_back({event, gap, start_s, end_s});
  };
  Event event = last_of_all(timeline);
  if (event.none()) return backwards;
  double until_s = timeline.makespan_s;
  while (true) {
    const double start_s = timeline.classes[event.rank_class].start_s[event.operation];
    push(event, false, start_s, until_s);
    event = last_to_come(graph, timeline, event);
    const Event cause = graph.last_cause(timeline, event);
    if (cause.none()) {
      push(event, true, 0.0, start_s);
      break;
    }
    const double end_s = timeline.classes[cause.rank_class].end_s[cause.operation];
    // Sums of the same durations in another order differ in their last digits.
    TY_CHECK(end_s <= start_s + kRounding * timeline.makespan_s, end_s, start_s);
    push(event, true, end_s, start_s);
    event = cause;
    until_s = std::min(end_s, start_s);
  }
  return {backwards.rbegin(), backwards.rend()};
}

std::vector<std::vector<double>> slack_seconds(const EventGraph& graph, const Partition& partition,
                                               const Timeline& timeline) {
  return LatestEnds(graph, partition, timeline).slack();
}

}  // namespace trainyard
