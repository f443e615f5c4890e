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
    if (stride_[i] > 0) place[i] = static_cast<std::int64_t>(rank) / stride_[i] % size_[i];
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
    workload.ranks[members[role]].slots[slot] = {.group = id, .role = role};
  workload.groups.push_back({.kind = kind, .members = std::move(members)});
}

}  // namespace trainyard
