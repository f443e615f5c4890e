// Finds the groups that make the same calls in isomorphic placements (isomorphic_placements.hpp).
// The communication model is queried for the phases of one of them; the others have those phases on
// their own links.
//
// The result follows from the wiring and from the groups' calls. It depends on which links have
// equal rates, but on no rate itself: clusters that share a router have the same placements.
//
//    const GroupPlacements placed = place_groups(workload, {calls, parallel, places});
//    placed.patterns[placed.pattern_of[group]].first;   // the group that is queried for it
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/isomorphic_placements.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The calls that the members of each group make together, and the slots that ranks call through.
// Many groups make the same calls, so lists of calls have numbers.
//
//    const GroupCalls calls(workload, analysis);
//    calls.list(calls.of_group(group));   // {0, 2}: indices into Workload::calls
class GroupCalls {
 public:
  // `analysis`: that of the workload.
  GroupCalls(const Workload& workload, const ProgramAnalysis& analysis);

  // The number of the group's list. Groups with equal calls have equal numbers.
  [[nodiscard]] std::uint32_t of_group(GroupId group) const { return of_group_[group]; }
  // The calls of a list, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& list(std::uint32_t number) const {
    return *lists_[number];
  }
  // Whether the program calls through the slot.
  [[nodiscard]] bool uses(std::uint32_t program, std::size_t slot) const {
    return of_slot_[program].size() > slot && of_slot_[program][slot] != kNoCalls;
  }
  // The number of slots that ranks call through, summed over all ranks.
  [[nodiscard]] std::size_t bound_slots() const { return bound_slots_; }

 private:
  static constexpr std::uint32_t kNoCalls = 0;  // the number of the empty list

  [[nodiscard]] std::uint32_t number(std::vector<std::uint32_t> calls);
  // The number of the union of two lists.
  [[nodiscard]] std::uint32_t either(std::uint32_t a, std::uint32_t b);

  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
  std::vector<const std::vector<std::uint32_t>*> lists_;  // keys of numbers_
  std::vector<std::vector<std::uint32_t>> of_slot_;       // [program][slot]
  std::vector<std::uint32_t> of_group_;
  std::size_t bound_slots_ = 0;
};

// A rank in a group, through its lowest slot bound to the group.
struct Membership {
  RankId rank = 0;
  GroupId group = 0;
  std::uint16_t slot = 0;
  std::uint32_t group_rank = 0;  // 0 where the group makes no send
};

// Links that always carry the same load (sim/cluster/parallel_links.hpp), by link of the cluster.
struct ParallelLinkIndex {
  // `every_link`: false: the parallel links of the cluster's router; true: each link is a set by
  // itself.
  ParallelLinkIndex(const Cluster& cluster, bool every_link);
  std::vector<LinkId> lowest;        // the lowest link that is parallel to it
  std::vector<std::uint32_t> count;  // by lowest link: the number of its parallel links
};

struct GroupPlacements {
  // Groups that make the same calls in isomorphic placements.
  struct Pattern {
    GroupId first = 0;         // the group that is queried
    std::uint32_t groups = 1;  // number of groups
  };

  std::shared_ptr<const GroupCalls> calls;
  std::shared_ptr<const ParallelLinkIndex> parallel;
  // Null: each group is a pattern by itself, and shapes name every link.
  std::shared_ptr<IsomorphicPlacements> places;
  std::vector<Pattern> patterns;
  std::vector<std::uint32_t> pattern_of;  // indexed by group
  std::vector<std::uint32_t> bases;  // bases of the groups' placements (IsomorphicPlacements::base)
  std::vector<std::uint32_t> base_of;   // by group: the index in `bases` where its own begins
  std::vector<Membership> memberships;  // through slots in use; sorted by rank, slot
  // [rank][slot]: slot of the membership, or kNone.
  std::vector<std::vector<std::uint32_t>> slot_of;
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const GroupPlacements& placed);

// The inputs of place_groups().
struct PlacementInputs {
  std::shared_ptr<const GroupCalls> calls;
  std::shared_ptr<const ParallelLinkIndex> parallel;
  std::shared_ptr<IsomorphicPlacements> places = {};  // null: no two groups are isomorphic
  // A group that is known to be isomorphic to no other.
  std::optional<GroupId> unique_group = {};
};
[[nodiscard]] GroupPlacements place_groups(const Workload& workload, PlacementInputs ground);

}  // namespace trainyard
