#include "sim/fold/apartness.hpp"

#include <algorithm>

namespace trainyard {

Apartness::Apartness(const Workload& workload, const JointGraph& joint, CallOrder& order)
    : workload_(workload),
      joint_(joint),
      order_(order),
      first_(workload.ranks.size() + 1, 0),
      of_itself_(workload.groups.size(), Itself::Unknown) {
  for (const Membership& membership : joint.memberships) ++first_[membership.rank + 1];
  for (std::size_t rank = 0; rank + 1 < first_.size(); ++rank) first_[rank + 1] += first_[rank];
}

bool Apartness::apart(GroupId a, GroupId b) {
  if (a == b) return of_itself(a);
  if (a > b) std::swap(a, b);
  const std::pair pair{a, b};
  if (last_pair_ != pair) {
    last_apart_ = is_pair(a) || is_pair(b) ? found_apart(a, b) : kept_apart(a, b);
    last_pair_ = pair;
  }
  return last_apart_;
}

bool Apartness::of_itself(GroupId group) {
  Itself& known = of_itself_[group];
  if (known == Itself::Unknown)
    known = found_apart(group, group) ? Itself::Apart : Itself::Together;
  return known == Itself::Apart;
}

// Of a sender and a receiver: looked at as fast as looked up.
bool Apartness::is_pair(GroupId group) const { return workload_.groups[group].members.size() <= 2; }

bool Apartness::kept_apart(GroupId a, GroupId b) {
  const auto [entry, fresh] = known_.try_emplace(std::uint64_t{a} << 32U | b, false);
  if (fresh) entry->second = found_apart(a, b);
  return entry->second;
}

bool Apartness::found_apart(GroupId a, GroupId b) {
  if (workload_.groups[a].members.size() > workload_.groups[b].members.size()) std::swap(a, b);
  return std::ranges::any_of(workload_.groups[a].members, [&](RankId rank) {
    const Membership* in_a = membership(rank, a);
    const Membership* in_b = membership(rank, b);
    return in_a != nullptr && in_b != nullptr && keeps_apart(rank, in_a->slot, in_b->slot);
  });
}

const Membership* Apartness::membership(RankId rank, GroupId group) const {
  for (std::size_t i = first_[rank]; i < first_[rank + 1]; ++i) {
    if (joint_.memberships[i].group == group) return &joint_.memberships[i];
  }
  return nullptr;
}

// Through all slots of the rank that name the two groups. Ranks of one program mostly bind their
// slots alike: what was last found for the two slots is asked for again.
bool Apartness::keeps_apart(RankId rank, std::uint16_t a, std::uint16_t b) {
  const std::vector<std::uint32_t>& slots = joint_.slot_of[rank];
  const std::uint32_t program = workload_.ranks[rank].program;
  Kept& kept = kept_[(program * 31U + a * 8U + b) % kept_.size()];
  if (kept.slots != nullptr && kept.program == program && kept.a == a && kept.b == b &&
      *kept.slots == slots)
    return kept.apart;
  kept = {&slots, program, a, b, are_ordered(program, slots, a, b)};
  return kept.apart;
}

bool Apartness::are_ordered(std::uint32_t program, const std::vector<std::uint32_t>& slots,
                            std::uint16_t a, std::uint16_t b) {
  for (std::uint16_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != a) continue;
    for (std::uint16_t j = 0; j < slots.size(); ++j)
      if (slots[j] == b && !order_.ordered(program, i, j)) return false;
  }
  return true;
}

}  // namespace trainyard
