// An order of four dimensions over ranks: how a launch counts them, and the groups along them.
//
//   RankOrder order("tp-dp-pp", {"tp", "cp", "dp", "pp"}, {2, 1, 4, 2});
//   order.place(5)             // {1, 0, 2, 0}: 5 = 1 + 2 * (2 + 4 * 0)
//   order.rank({1, 0, 2, 0})   // 5
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/workload.hpp"

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

// One group for every distinct key of the ranks' positions, members in rank order. Grid gives
// position(rank) and rank(position); key takes a position and returns that of the group's first.
template <class Grid, class Key>
void add_groups_by(Workload& workload, const Grid& grid, GroupKind kind, std::size_t slot,
                   const Key& key) {
  std::map<RankId, std::vector<RankId>> members;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank)
    members[grid.rank(key(grid.position(rank)))].push_back(rank);
  for (auto& [first, group] : members) add_group(workload, kind, slot, std::move(group));
}

}  // namespace trainyard
