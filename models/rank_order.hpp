// An order of four dimensions over ranks: how a launch counts them, and the groups along them.
//
//   RankOrder order("tp-dp-pp", {"tp", "cp", "dp", "pp"}, {2, 1, 4, 2});
//   order.place(5)             // {1, 0, 2, 0}: 5 = 1 + 2 * (2 + 4 * 0)
//   order.rank({1, 0, 2, 0})   // 5
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

class RankOrder {
 public:
  static constexpr std::size_t kDimensions = 4;
  using Place = std::array<std::int64_t, kDimensions>;

  // `order` lists dimensions by name, joined by dashes, the one that varies fastest first; words
  // that name none are passed over. REQUIRES: sizes > 0; a dimension that is not listed has size 1.
  RankOrder(const std::string& order, const std::array<std::string_view, kDimensions>& names,
            const Place& size);

  [[nodiscard]] std::int64_t world() const { return world_; }  // ranks
  [[nodiscard]] Place place(RankId rank) const;
  [[nodiscard]] RankId rank(const Place& place) const;

 private:
  Place size_{};
  Place stride_{};
  std::int64_t world_ = 1;
};

// Binds every member of a new group to the slot; the role is the position among `members`. One rank
// alone is no group.
void add_group(Workload& workload, GroupKind kind, std::size_t slot, std::vector<RankId> members);

// The binding of a slot, with room made for it where the rank has fewer slots so far.
[[nodiscard]] SlotBinding& slot_of(Rank& rank, std::size_t slot);

// One group for every rank that is somebody's first, in their order; `first` by rank. Members come
// in rank order; one rank alone is no group.
void add_groups_of(Workload& workload, GroupKind kind, std::size_t slot,
                   const std::vector<RankId>& first);

// One group for every distinct key of the ranks' positions, members in rank order. Grid gives
// position(rank) and rank(position); key takes a position and returns that of the group's first.
template <class Grid, class Key>
void add_groups_by(Workload& workload, const Grid& grid, GroupKind kind, std::size_t slot,
                   const Key& key) {
  std::vector<RankId> first;
  first.reserve(workload.ranks.size());
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank)
    first.push_back(grid.rank(key(grid.position(rank))));
  add_groups_of(workload, kind, slot, first);
}

}  // namespace trainyard
