#include "sim/engine/busy_members.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

BusyMembers::BusyMembers(const Partition& partition, std::span<const double> loss) : loss_(loss) {
  if (loss.empty()) return;
  TY_CHECK(loss.size() == partition.groups.size(), loss.size(), partition.groups.size());
  members_.resize(partition.ranks.size());
  busy_.assign(loss.size(), 0);
  slow_.assign(loss.size(), false);
  for (std::uint32_t group = 0; group < loss.size(); ++group) {
    TY_CHECK(loss[group] >= 0.0 && loss[group] < 1.0, group, loss[group]);
    if (loss[group] <= 0.0) continue;
    for (const GroupParty& party : partition.groups[group].parties)
      members_[party.rank_class].groups.push_back(group);
  }
}

std::vector<BusyMembers::Change> BusyMembers::take_changes() {
  std::vector<Change> changes;
  if (touched_.empty()) return changes;
  std::vector<std::uint32_t> groups;
  for (const std::uint32_t rank_class : touched_) {
    Member& member = members_[rank_class];
    member.touched = false;
    const bool computes = member.running > 0;
    if (computes == member.computed) continue;
    member.computed = computes;
    for (const std::uint32_t group : member.groups) {
      busy_[group] += computes ? 1U : ~0U;  // one more, or one less
      groups.push_back(group);
    }
  }
  touched_.clear();
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const std::uint32_t group : groups) {
    const bool slow = busy_[group] > 0;
    if (slow == slow_[group]) continue;
    slow_[group] = slow;
    changes.push_back({group, slow ? 1.0 - loss_[group] : 1.0});
  }
  return changes;
}

}  // namespace trainyard
