#include "sim/contention/joint_graph.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/contention/group_shapes.hpp"

namespace trainyard {

namespace {

class Joiner {
 public:
  // Without places every group is asked for, and told link by link.
  Joiner(const Cluster& cluster, const Workload& workload, const ProgramAnalysis& analysis,
         const CommunicationModel& communication, AlikePlaces* places)
      : cluster_(cluster),
        workload_(workload),
        communication_(communication),
        places_(places),
        group_calls_(workload, analysis) {}

  // `parallel_of` is by link, as the graph's. Nothing where a chain loads parallel links unequally.
  std::optional<JointGraph> joined(std::vector<LinkId> parallel_of) {
    joint_.parallel_links.assign(parallel_of.size(), 0);
    for (const LinkId lowest : parallel_of) ++joint_.parallel_links[lowest];
    joint_.parallel_of = std::move(parallel_of);
    GroupShapes shapes({.cluster = cluster_,
                        .workload = workload_,
                        .communication = communication_,
                        .calls = group_calls_,
                        .places = places_},
                       joint_);
    if (!shapes.write([&] { collect_memberships(); })) return std::nullopt;
    collect_links();
    return std::move(joint_);
  }

 private:
  void collect_memberships() {
    joint_.slot_of.resize(workload_.ranks.size());
    joint_.memberships.reserve(group_calls_.bound_slots());
    for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) join_groups(rank);
    for (Membership& membership : joint_.memberships) {
      if (!sends(membership.group)) membership.role = 0;
    }
  }

  void join_groups(RankId id) {
    const Rank& rank = workload_.ranks[id];
    const std::size_t first = joint_.memberships.size();
    joint_.slot_of[id].assign(rank.slots.size(), kNone);
    for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
      const auto [group, role] = rank.slots[slot];
      if (group == kNone || !group_calls_.uses(rank.program, slot)) continue;
      const auto known = std::find_if(
          joint_.memberships.begin() + static_cast<std::ptrdiff_t>(first), joint_.memberships.end(),
          [&](const Membership& membership) { return membership.group == group; });
      joint_.slot_of[id][slot] = known == joint_.memberships.end() ? slot : known->slot;
      if (known == joint_.memberships.end()) {
        joint_.memberships.push_back({.rank = id, .group = group, .slot = slot, .role = role});
      }
    }
  }

  [[nodiscard]] bool sends(GroupId group) const {
    const std::vector<std::uint32_t>& calls = group_calls_.list(group_calls_.of_group(group));
    return std::ranges::any_of(calls, [&](std::uint32_t call) {
      return op_of(workload_.calls[call]) == CollectiveOp::SendRecv;
    });
  }

  void collect_links() {
    std::vector<bool> used(cluster_.links().size(), false);
    for (const ShapeLoad& load : joint_.shape_loads) used[load.link] = true;
    for (LinkId link = 0; link < used.size(); ++link) {
      if (used[link]) joint_.links.push_back(link);
    }
  }

  const Cluster& cluster_;
  const Workload& workload_;
  const CommunicationModel& communication_;
  AlikePlaces* places_;
  const GroupCalls group_calls_;
  JointGraph joint_;
};

}  // namespace

// Where a communication model loads switches by name, parallel links are no longer alike.
JointGraph join(const Cluster& cluster, const Workload& workload, const ProgramAnalysis& analysis,
                const CommunicationModel& communication, AlikePlaces* places) {
  std::optional<AlikePlaces> found_here;
  if (places == nullptr) places = &found_here.emplace(cluster);
  Joiner joiner(cluster, workload, analysis, communication, places);
  const std::uint32_t links = cluster.wiring().link_count();
  if (auto joint = joiner.joined(cluster.router().bundles().of_each(links)))
    return std::move(*joint);
  return join_link_by_link(cluster, workload, analysis, communication);
}

JointGraph join_link_by_link(const Cluster& cluster, const Workload& workload,
                             const ProgramAnalysis& analysis,
                             const CommunicationModel& communication) {
  std::vector<LinkId> itself(cluster.wiring().link_count());
  std::iota(itself.begin(), itself.end(), LinkId{});
  return Joiner(cluster, workload, analysis, communication, nullptr)
      .joined(std::move(itself))
      .value();
}

bool is_large(const Cluster& cluster) {
  constexpr std::size_t kManyLinks = 100'000;
  return cluster.links().size() >= kManyLinks;
}

std::size_t KeyHash::operator()(const std::vector<std::uint64_t>& key) const {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) hash = hash_with(hash, word);
  return hash;
}

std::uint64_t rounded_key(double value) {
  constexpr std::uint64_t kDropped = 12;  // of the 52 bits of the mantissa
  const auto bits = std::bit_cast<std::uint64_t>(value == 0.0 ? 0.0 : value);
  return (bits + (std::uint64_t{1} << (kDropped - 1))) >> kDropped;
}

}  // namespace trainyard
