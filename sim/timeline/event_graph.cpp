#include "sim/timeline/event_graph.hpp"

#include "sim/base/check.hpp"

namespace trainyard {

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
  number_meetings();
}

// The i-th call of a party, in the order of its program, meets the i-th call of every other party
// of the group class.
void EventGraph::number_meetings() {
  struct Calls {
    std::vector<std::vector<OpIndex>> of_party;
    std::uint32_t first_meeting = 0;
  };
  std::vector<Calls> groups(partition_.groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group)
    groups[group].of_party.resize(partition_.groups[group].parties.size());
  meeting_of_.resize(partition_.ranks.size());
  for (std::uint32_t rank_class = 0; rank_class < partition_.ranks.size(); ++rank_class) {
    const OperationList& operations = program(rank_class).operations;
    meeting_of_[rank_class].assign(operations.size(), kNone);
    for (OpIndex op = 0; op < operations.size(); ++op) {
      if (!communicates({rank_class, op})) continue;
      const SlotPlace place = partition_.places.at(rank_class).at(operations[op].slot);
      groups.at(place.group_class).of_party.at(place.party).push_back(op);
    }
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto first = static_cast<std::uint32_t>(meetings_.size());
    for (std::size_t party = 0; party < groups[group].of_party.size(); ++party) {
      const std::uint32_t rank_class = partition_.groups[group].parties[party].rank_class;
      const std::vector<OpIndex>& calls = groups[group].of_party[party];
      for (std::uint32_t i = 0; i < calls.size(); ++i) {
        if (first + i >= meetings_.size()) meetings_.emplace_back();
        meetings_[first + i].push_back({rank_class, calls[i]});
        meeting_of_[rank_class][calls[i]] = first + i;
      }
    }
  }
}

Event EventGraph::previous(Event event) const {
  const std::uint32_t program = partition_.ranks[event.rank_class].program;
  return {event.rank_class, previous_[program][event.operation]};
}

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

}  // namespace trainyard
