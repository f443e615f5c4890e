#include "models/rank_order.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace trainyard {

RankOrder::RankOrder(const std::string& order,
                     const std::array<std::string_view, kDimensions>& names, const Place& size)
    : size_(size) {
  std::istringstream words(order);
  for (std::string word; std::getline(words, word, '-');) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) continue;
    const auto dimension = static_cast<std::size_t>(found - names.begin());
    stride_[dimension] = world_;
    world_ *= size_[dimension];
  }
}

RankOrder::Place RankOrder::place(RankId rank) const {
  Place place{};
  for (std::size_t i = 0; i < kDimensions; ++i)
    if (stride_[i] > 0 && size_[i] > 1)
      place[i] = rank / static_cast<RankId>(stride_[i]) % static_cast<RankId>(size_[i]);
  return place;
}

RankId RankOrder::rank(const Place& place) const {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) rank += place[i] * stride_[i];
  return static_cast<RankId>(rank);
}

void add_group(Workload& workload, GroupKind kind, std::size_t slot, std::vector<RankId> members) {
  if (members.size() < 2) return;
  const auto id = static_cast<GroupId>(workload.groups.size());
  for (std::uint32_t role = 0; role < members.size(); ++role)
    slot_of(workload.ranks[members[role]], slot) = {.group = id, .role = role};
  workload.groups.push_back({.kind = kind, .members = std::move(members)});
}

SlotBinding& slot_of(Rank& rank, std::size_t slot) {
  if (rank.slots.size() <= slot) rank.slots.resize(slot + 1);
  return rank.slots[slot];
}

void add_groups_of(Workload& workload, GroupKind kind, std::size_t slot,
                   const std::vector<RankId>& first) {
  std::vector<std::uint32_t> size(first.size(), 0);
  for (const RankId rank : first) ++size[rank];
  std::vector<GroupId> group_of(first.size(), kNone);
  for (RankId rank = 0; rank < first.size(); ++rank) {
    if (size[rank] < 2) continue;
    group_of[rank] = static_cast<GroupId>(workload.groups.size());
    workload.groups.push_back({.kind = kind, .members = {}});
    workload.groups.back().members.reserve(size[rank]);
  }
  for (RankId rank = 0; rank < first.size(); ++rank) {
    const GroupId id = group_of[first[rank]];
    if (id == kNone) continue;
    std::vector<RankId>& members = workload.groups[id].members;
    slot_of(workload.ranks[rank], slot) = {.group = id,
                                           .role = static_cast<std::uint32_t>(members.size())};
    members.push_back(rank);
  }
}

}  // namespace trainyard
