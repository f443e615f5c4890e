#include "sim/engine/rendezvous.hpp"

#include <algorithm>
#include <iterator>

#include "sim/base/check.hpp"

namespace trainyard {

Rendezvous::Rendezvous(const Partition& partition, EnginePrograms& known) : partition_(partition) {
  calls_.resize(partition.groups.size());
  arrived_.resize(partition.groups.size());
  for (std::size_t group = 0; group < partition.groups.size(); ++group) {
    calls_[group].resize(partition.groups[group].participants.size());
  }
  endpoints_.resize(partition.ranks.size());
  for (std::uint32_t rank_class = 0; rank_class < partition.ranks.size(); ++rank_class)
    bind_endpoints(rank_class, known.calls(partition.ranks[rank_class].program));
  for (std::size_t group = 0; group < calls_.size(); ++group) {
    // A call of a single participant is complete when that one arrives, so nothing is counted.
    if (calls_[group].size() == 1) continue;
    std::size_t most = 0;
    // In a valid workload all participants make equally many calls. In a faulty one the surplus
    // calls never become complete, and deadlock.cpp reports them.
    for (const std::span<const OpIndex> calls : calls_[group]) most = std::max(most, calls.size());
    arrived_[group].assign(most, 0);
  }
}

void Rendezvous::bind_endpoints(std::uint32_t rank_class, const ProgramCalls& made) {
  for (std::size_t slot = 0; slot < made.slots(); ++slot) {
    Endpoint& endpoint = endpoints_[rank_class].emplace_back();
    if (made.by_slot(slot).empty()) continue;
    const SlotTarget place = partition_.places.at(rank_class).at(slot);
    TY_CHECK(place.group_class < calls_.size(), rank_class, slot);
    endpoint = {place.group_class, place.participant, &made};
    std::span<const OpIndex>& calls = calls_[place.group_class].at(place.participant);
    if (calls.empty()) {
      calls = made.by_slot(slot);
      continue;
    }
    // Another slot of the rank class names the same group: the calls of both count as one sequence,
    // in issue order. The ordinal of a call is then no longer that of its slot, so call_of()
    // searches the merged list.
    std::vector<OpIndex>& joined = joined_.emplace_back();
    std::ranges::merge(calls, made.by_slot(slot), std::back_inserter(joined));
    calls = joined;
    for (Endpoint& other : endpoints_[rank_class])
      if (other.group_class == place.group_class && other.participant == place.participant)
        other.calls = nullptr;
  }
}

Rendezvous::Call Rendezvous::call_of(std::uint32_t rank_class, OpIndex op,
                                     std::uint16_t slot) const {
  const Endpoint& endpoint = endpoints_[rank_class][slot];
  if (endpoint.calls != nullptr) return {endpoint.group_class, endpoint.calls->ordinal(op, slot)};
  const std::span<const OpIndex> calls = calls_[endpoint.group_class][endpoint.participant];
  const auto found = std::lower_bound(calls.begin(), calls.end(), op);
  return {endpoint.group_class, static_cast<std::uint32_t>(found - calls.begin())};
}

std::optional<Rendezvous::Call> Rendezvous::arrive(std::uint32_t rank_class, OpIndex op,
                                                   std::uint16_t slot) {
  const Call group_call = call_of(rank_class, op, slot);
  const std::size_t participants = calls_[group_call.group_class].size();
  if (participants == 1) return group_call;
  // Each participant makes its i-th call once, so a count is enough.
  const std::uint32_t arrived = ++arrived_[group_call.group_class][group_call.ordinal];
  if (arrived < participants) return std::nullopt;
  return group_call;
}

}  // namespace trainyard
