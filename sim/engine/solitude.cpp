#include "sim/engine/solitude.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace trainyard {
namespace {

// A stream of a rank class, on which work is done one after the other.
using Lane = std::pair<std::uint32_t, std::uint8_t>;

// By group class: the lanes that every call of the class passes, sorted. A lane serialises a group
// class when all calls of one of its parties are on it.
std::vector<std::vector<Lane>> serialising_lanes(const Partition& partition, KnownPrograms& known) {
  std::vector<std::map<std::uint32_t, std::set<Lane>>> lanes_of_party(partition.groups.size());
  for (std::uint32_t rank_class = 0; rank_class < partition.ranks.size(); ++rank_class) {
    for (const auto& [slot, stream] : known.calls(partition.ranks[rank_class].program).lanes) {
      const SlotPlace place = partition.places[rank_class][slot];
      lanes_of_party[place.group_class][place.party].emplace(rank_class, stream);
    }
  }
  std::vector<std::vector<Lane>> result(partition.groups.size());
  for (std::size_t group = 0; group < result.size(); ++group) {
    for (const auto& [party, lanes] : lanes_of_party[group]) {
      if (lanes.size() == 1) result[group].push_back(*lanes.begin());
    }
    std::sort(result[group].begin(), result[group].end());
  }
  return result;
}

bool is_private(const LinkSet& set, const Partition& partition,
                const std::vector<std::vector<Lane>>& lanes_of_group) {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> phases;
  std::vector<Lane> common =
      lanes_of_group[partition.flows[set.users.front().flow_class].group_class];
  std::uint32_t last_group = kNone;
  for (const LinkSet::User& user : set.users) {
    const FlowClass& flow = partition.flows[user.flow_class];
    if (!phases.emplace(flow.group_class, flow.call, flow.phase).second) return false;
    if (flow.group_class == last_group) continue;
    last_group = flow.group_class;
    const std::vector<Lane>& lanes = lanes_of_group[flow.group_class];
    std::erase_if(common, [&](const Lane& lane) {
      return !std::binary_search(lanes.begin(), lanes.end(), lane);
    });
    if (common.empty()) return false;
  }
  return true;
}

}  // namespace

std::vector<bool> private_sets(const Partition& partition, const LinkSets& sets,
                               KnownPrograms& known) {
  const std::vector<std::vector<Lane>> lanes = serialising_lanes(partition, known);
  std::vector<bool> result;
  result.reserve(sets.sets.size());
  for (const LinkSet& set : sets.sets) result.push_back(is_private(set, partition, lanes));
  return result;
}

}  // namespace trainyard
