#include "sim/engine/meetings.hpp"

#include <algorithm>
#include <iterator>

#include "sim/base/check.hpp"

namespace trainyard {

Meetings::Meetings(const Workload& workload, const Partition& partition, KnownPrograms& known)
    : workload_(workload), partition_(partition) {
  calls_.resize(partition.groups.size());
  arrived_.resize(partition.groups.size());
  for (std::size_t group = 0; group < partition.groups.size(); ++group) {
    calls_[group].resize(partition.groups[group].parties.size());
  }
  for (std::size_t rank_class = 0; rank_class < partition.ranks.size(); ++rank_class) {
    made_.push_back(&known.calls(workload, partition.ranks[rank_class].program));
    const auto& by_slot = made_.back()->by_slot;
    for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
      if (by_slot[slot].empty()) continue;
      const SlotPlace place = partition.places.at(rank_class).at(slot);
      TY_CHECK(place.group_class < calls_.size(), rank_class, slot);
      std::span<const OpIndex>& calls = calls_[place.group_class].at(place.party);
      if (!calls.empty()) {
        std::vector<OpIndex>& joined = joined_.emplace_back();
        std::ranges::merge(calls, by_slot[slot], std::back_inserter(joined));
        calls = joined;
      } else {
        calls = by_slot[slot];
      }
    }
  }
  for (std::size_t group = 0; group < calls_.size(); ++group) {
    std::size_t most = 0;
    for (const std::span<const OpIndex> calls : calls_[group]) most = std::max(most, calls.size());
    arrived_[group].assign(most, 0);
  }
}

Meetings::Meeting Meetings::meeting_of(std::uint32_t rank_class, OpIndex op) const {
  const Program& program = workload_.programs[partition_.ranks[rank_class].program];
  const std::uint16_t slot = program.operations[op].slot;
  const SlotPlace place = partition_.places[rank_class][slot];
  const std::span<const OpIndex> calls = calls_[place.group_class][place.party];
  const ProgramCalls& made = *made_[rank_class];
  if (calls.data() == made.by_slot[slot].data())  // through no other slot
    return {place.group_class, made.place_in_slot[op]};
  const auto found = std::lower_bound(calls.begin(), calls.end(), op);
  return {place.group_class, static_cast<std::uint32_t>(found - calls.begin())};
}

std::optional<Meetings::Meeting> Meetings::arrive(std::uint32_t rank_class, OpIndex op) {
  const Meeting meeting = meeting_of(rank_class, op);
  std::uint16_t& arrived = arrived_[meeting.group_class][meeting.ordinal];
  ++arrived;
  if (arrived < partition_.groups[meeting.group_class].parties.size()) return std::nullopt;
  return meeting;
}

}  // namespace trainyard
