#include "sim/contention/group_placements.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <variant>

#include "sim/cluster/parallel_links.hpp"

namespace trainyard {

GroupCalls::GroupCalls(const Workload& workload, const ProgramAnalysis& analysis) {
  (void)number({});  // kNoCalls
  for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
    std::vector<std::uint32_t>& lists = of_slot_.emplace_back();
    // The lists by slot are numbered once per program. Groups then take unions of numbers, of which
    // there are few.
    for (const std::vector<std::uint32_t>& calls : analysis.calls(program).distinct_calls())
      lists.push_back(number(calls));
  }
  of_group_.assign(workload.groups.size(), kNoCalls);
  for (const Rank& rank : workload.ranks) {
    for (std::size_t slot = 0; slot < rank.slots.size(); ++slot) {
      if (rank.slots[slot].group == kNone || !uses(rank.program, slot)) continue;
      std::uint32_t& all = of_group_.at(rank.slots[slot].group);
      // A group makes every call that one of its members makes through a slot bound to it.
      all = either(all, of_slot_[rank.program][slot]);
      ++bound_slots_;
    }
  }
}

std::uint32_t GroupCalls::number(std::vector<std::uint32_t> calls) {
  const auto next = static_cast<std::uint32_t>(lists_.size());
  const auto [entry, fresh] = numbers_.try_emplace(std::move(calls), next);
  if (fresh) lists_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t GroupCalls::either(std::uint32_t a, std::uint32_t b) {
  if (a == b || b == kNoCalls) return a;
  if (a == kNoCalls) return b;
  std::vector<std::uint32_t> calls;
  std::ranges::set_union(list(a), list(b), std::back_inserter(calls));
  return number(std::move(calls));
}

ParallelLinkIndex::ParallelLinkIndex(const Cluster& cluster, bool every_link) {
  const std::uint32_t links = cluster.wiring().link_count();
  if (every_link) {
    lowest.resize(links);
    std::iota(lowest.begin(), lowest.end(), LinkId{});
  } else {
    lowest = cluster.router().parallel_links().of_each(links);
  }
  count.assign(links, 0);
  for (const LinkId link : lowest) ++count[link];
}

namespace {

// Groups with an equal list of calls and an equal placement form a pattern. A group without a
// placement is a pattern by itself. Cost: one placement key per group; the communication model is
// not needed.
class Placing {
 public:
  Placing(const Workload& workload, PlacementInputs ground)
      : workload_(workload), without_like_(ground.unique_group) {
    placed_.calls = std::move(ground.calls);
    placed_.parallel = std::move(ground.parallel);
    placed_.places = std::move(ground.places);
  }

  GroupPlacements placed() {
    find_patterns();
    collect_memberships();
    return std::move(placed_);
  }

 private:
  // The kinds of calls of a list. They decide which placements apply to a group.
  struct CallKinds {
    bool known = false;
    bool names_switches = false;
    bool only_messages = true;
  };

  void find_patterns();
  [[nodiscard]] std::optional<std::uint32_t> holder_of(GroupId group);
  void place(GroupId group, std::uint32_t place);
  void place_alone(GroupId group);
  [[nodiscard]] const CallKinds& kinds_of(std::uint32_t list);
  void collect_memberships();
  void join_groups(RankId id);
  [[nodiscard]] bool sends(GroupId group) const;

  const Workload& workload_;
  const std::optional<GroupId> without_like_;
  GroupPlacements placed_;
  std::unordered_map<std::uint64_t, std::uint32_t> pattern_at_;  // key: list of calls, placement
  std::vector<CallKinds> call_kinds_;  // by number of a list of calls, filled on demand
  std::vector<std::uint32_t> gpus_;    // GPUs of the present group
};

void Placing::find_patterns() {
  const std::size_t groups = workload_.groups.size();
  placed_.pattern_of.assign(groups, kNone);
  placed_.base_of.assign(groups, 0);
  for (GroupId group = 0; group < groups; ++group) {
    const auto found = group == without_like_ ? std::nullopt : holder_of(group);
    if (found) {
      place(group, *found);
    } else {
      place_alone(group);
    }
  }
}

// Returns the placement of the group, which becomes the present one of `places`.
//
// Groups in isomorphic placements have the same phases (communication_model.hpp) under two
// conditions: their calls name no switches, and a tree of switches joins their GPUs or they are a
// sender and a receiver.
std::optional<std::uint32_t> Placing::holder_of(GroupId group) {
  const CallKinds& kinds = kinds_of(placed_.calls->of_group(group));
  const std::vector<RankId>& members = workload_.groups[group].members;
  if (!placed_.places || kinds.names_switches || members.empty()) return std::nullopt;
  gpus_.resize(members.size());
  std::ranges::transform(members, gpus_.begin(),
                         [&](RankId rank) { return workload_.ranks[rank].gpu; });
  if (const auto found = placed_.places->of_group(gpus_)) return found;
  if (gpus_.size() != 2 || !kinds.only_messages) return std::nullopt;
  return placed_.places->of_message(gpus_[0], gpus_[1]);
}

void Placing::place(GroupId group, std::uint32_t place) {
  const auto next = static_cast<std::uint32_t>(placed_.patterns.size());
  // Placement numbers do not depend on calls, so the list of calls is part of the key.
  const std::uint64_t key = std::uint64_t{placed_.calls->of_group(group)} << 32U | place;
  const auto [known, fresh] = pattern_at_.try_emplace(key, next);
  placed_.pattern_of[group] = known->second;
  if (fresh) {
    placed_.patterns.push_back({.first = group});
  } else {
    ++placed_.patterns[known->second].groups;
  }
  placed_.base_of[group] = static_cast<std::uint32_t>(placed_.bases.size());
  const std::span<const std::uint32_t> base = placed_.places->base();
  placed_.bases.insert(placed_.bases.end(), base.begin(), base.end());
}

void Placing::place_alone(GroupId group) {
  placed_.pattern_of[group] = static_cast<std::uint32_t>(placed_.patterns.size());
  placed_.patterns.push_back({.first = group});
}

const Placing::CallKinds& Placing::kinds_of(std::uint32_t list) {
  if (list >= call_kinds_.size()) call_kinds_.resize(list + std::size_t{1});
  CallKinds& kinds = call_kinds_[list];
  if (kinds.known) return kinds;
  kinds.known = true;
  for (const std::uint32_t index : placed_.calls->list(list)) {
    const Call& call = workload_.calls[index];
    kinds.names_switches = kinds.names_switches || std::holds_alternative<RelayCall>(call);
    kinds.only_messages = kinds.only_messages && op_of(call) == CollectiveOp::SendRecv;
  }
  return kinds;
}

void Placing::collect_memberships() {
  placed_.slot_of.resize(workload_.ranks.size());
  placed_.memberships.reserve(placed_.calls->bound_slots());
  for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) join_groups(rank);
  for (Membership& membership : placed_.memberships)
    // Only messages have a direction. In other groups, group ranks would break the symmetry of
    // members.
    if (!sends(membership.group)) membership.group_rank = 0;
}

// Several slots of a rank may name one group. The membership has the lowest of them, and slot_of
// leads there from each.
void Placing::join_groups(RankId id) {
  const Rank& rank = workload_.ranks[id];
  std::vector<Membership>& all = placed_.memberships;
  const auto first = static_cast<std::ptrdiff_t>(all.size());
  placed_.slot_of[id].assign(rank.slots.size(), kNone);
  for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
    const auto [group, group_rank] = rank.slots[slot];
    if (group == kNone || !placed_.calls->uses(rank.program, slot)) continue;
    const auto known = std::find_if(all.begin() + first, all.end(),
                                    [&](const Membership& one) { return one.group == group; });
    placed_.slot_of[id][slot] = known == all.end() ? slot : known->slot;
    if (known == all.end())
      all.push_back({.rank = id, .group = group, .slot = slot, .group_rank = group_rank});
  }
}

bool Placing::sends(GroupId group) const {
  return std::ranges::any_of(
      placed_.calls->list(placed_.calls->of_group(group)),
      [&](std::uint32_t call) { return op_of(workload_.calls[call]) == CollectiveOp::SendRecv; });
}

}  // namespace

GroupPlacements place_groups(const Workload& workload, PlacementInputs ground) {
  return Placing(workload, std::move(ground)).placed();
}

std::size_t footprint(const GroupPlacements& placed) {
  std::size_t numbers = placed.pattern_of.size() + placed.bases.size() + placed.base_of.size() +
                        2 * placed.parallel->lowest.size();
  for (const std::vector<std::uint32_t>& slots : placed.slot_of) numbers += slots.size();
  return numbers * sizeof(std::uint32_t) + placed.memberships.size() * sizeof(Membership);
}

}  // namespace trainyard
