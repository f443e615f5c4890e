// Which groups make the same calls in isomorphic placements (isomorphic_placements.hpp): one of
// them is asked for its phases, and the others have those on their own links.
//
// All of it follows from the wiring and from who calls what. It knows which links have equal rates,
// but no rate: clusters that share a router have the same placements.
//
//   const GroupPlacements placed = place_groups(workload, {calls, parallel, places});
//   placed.patterns[placed.pattern_of[group]].first;   // the group that is asked in its place
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

// Which calls the members of each group make together, and through which of their slots ranks make
// any. Many groups make the same calls, so lists of calls have numbers.
//
//   const GroupCalls calls(workload, analysis);
//   calls.list(calls.of_group(group));   // {0, 2}: indices into Workload::calls
class GroupCalls {
 public:
  // `analysis`: of the workload.
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
  // How many slots ranks call through, over all ranks.
  [[nodiscard]] std::size_t bound_slots() const { return bound_slots_; }

 private:
  static constexpr std::uint32_t kNoCalls = 0;  // the number of the empty list

  [[nodiscard]] std::uint32_t number(std::vector<std::uint32_t> calls);
  // The number of the calls that are in one of two lists.
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

// Links that carry the same whatever is sent (sim/cluster/parallel_links.hpp), by link of the
// cluster.
struct ParallelLinkIndex {
  // As the cluster is wired, or with every link by itself.
  ParallelLinkIndex(const Cluster& cluster, bool every_link);
  std::vector<LinkId> lowest;        // the lowest that is parallel to it
  std::vector<std::uint32_t> count;  // of the lowest: how many there are
};

struct GroupPlacements {
  // Groups that make the same calls in isomorphic placements.
  struct Pattern {
    GroupId first = 0;         // the one that is asked
    std::uint32_t groups = 1;  // how many there are
  };

  std::shared_ptr<const GroupCalls> calls;
  std::shared_ptr<const ParallelLinkIndex> parallel;
  std::shared_ptr<IsomorphicPlacements>
      places;  // null: each group is a pattern, and told link by link
  std::vector<Pattern> patterns;
  std::vector<std::uint32_t> pattern_of;  // by group
  std::vector<std::uint32_t> bases;       // of the places of groups (IsomorphicPlacements::base)
  std::vector<std::uint32_t> base_of;     // by group, where its own begins
  std::vector<Membership> memberships;    // through slots in use; sorted by rank, slot
  std::vector<std::vector<std::uint32_t>>
      slot_of;  // [rank][slot]: slot of the membership, or kNone
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const GroupPlacements& placed);

// The inputs of a search for placements.
struct PlacementGround {
  std::shared_ptr<const GroupCalls> calls;
  std::shared_ptr<const ParallelLinkIndex> parallel;
  std::shared_ptr<IsomorphicPlacements> places = {};  // null: no two groups are alike
  std::optional<GroupId> without_like = {};           // a group known to have no like
};
[[nodiscard]] GroupPlacements place_groups(const Workload& workload, PlacementGround ground);

}  // namespace trainyard
