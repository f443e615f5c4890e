// Folding done slowly and directly from the definitions, for comparison with `fold`.
//
// `check_equitable` prices every flow of every group anew and adds up loads link by link.
// `slow_classes` refines colours in rounds over single flows, with exact keys instead of hashes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/cluster/parallel_links.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard::test {

// One flow of one group, as CommunicationModel returns it.
struct PlainFlow {
  GroupId group = 0;
  std::uint32_t call = 0;
  std::uint32_t phase = 0;
  double latency = 0.0;
  MultiLinkFlow link_flow;
  [[nodiscard]] double payload() const {
    double most = 0.0;
    for (const LinkLoad& load : link_flow.loads) most = std::max(most, load.bytes);
    return most;
  }
};

inline std::vector<std::uint32_t> gpus_of(const Workload& workload, GroupId group) {
  std::vector<std::uint32_t> gpus;
  for (const RankId rank : workload.groups[group].members) gpus.push_back(workload.ranks[rank].gpu);
  return gpus;
}

// The calls that members of the group really make.
inline std::set<std::uint32_t> calls_of(const Workload& workload, GroupId group) {
  std::set<std::uint32_t> calls;
  for (const RankId id : workload.groups[group].members) {
    const Rank& rank = workload.ranks[id];
    for (const Operation& op : workload.programs[rank.program].operations) {
      if (op.kind == OpKind::Compute || op.kind == OpKind::Delay) continue;
      if (rank.slots[op.slot].group == group) calls.insert(op.payload);
    }
  }
  return calls;
}

// The flows with every link separate, so that this code does not depend on sets of parallel links.
inline std::vector<PlainFlow> plain_flows(const Cluster& cluster, const Workload& workload,
                                          const CommunicationModel& communication) {
  std::vector<PlainFlow> link_flows;
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    for (const std::uint32_t call : calls_of(workload, group)) {
      const auto phases = communication.phases(workload.calls[call], gpus_of(workload, group));
      for (std::uint32_t phase = 0; phase < phases.size(); ++phase) {
        for (const MultiLinkFlow& link_flow : phases[phase].flows) {
          link_flows.push_back({group, call, phase, phases[phase].latency.value(), link_flow});
          link_flows.back().link_flow.loads = every_link(cluster, link_flow.loads);
        }
      }
    }
  }
  return link_flows;
}

// Numbers that differ by less than 1e-9 of their size count as equal.
inline long long coarse(double value) {
  return value == 0.0 || !std::isfinite(value) ? (value == 0.0 ? 0 : -1)
                                               : std::llround(std::log(value) * 1e9);
}

// The properties by which flow classes of one phase differ from outside: loads per class of links.
using FlowKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, long long,
                           std::vector<std::pair<std::uint32_t, long long>>>;

inline void check_ranks(const Workload& workload, const Partition& partition) {
  for (RankId id = 0; id < workload.ranks.size(); ++id) {
    const Rank& rank = workload.ranks[id];
    const RankClass& mine = partition.ranks[partition.class_of_rank[id]];
    ASSERT_EQ(rank.program, mine.program);
    for (const Operation& op : workload.programs[rank.program].operations) {
      if (op.kind == OpKind::Compute || op.kind == OpKind::Delay) continue;
      const auto [group, group_rank] = rank.slots[op.slot];
      const SlotTarget place = partition.places[partition.class_of_rank[id]][op.slot];
      ASSERT_EQ(partition.class_of_group[group], place.group_class) << "rank " << id;
      const Participant& participant =
          partition.groups[place.group_class].participants.at(place.participant);
      EXPECT_EQ(participant.rank_class, partition.class_of_rank[id]);
      if (op.kind != OpKind::Collective) {
        EXPECT_EQ(participant.group_rank, group_rank) << "rank " << id;
      }
    }
  }
}

// Every group has as many members of every class of ranks as its class states.
inline void check_groups(const Workload& workload, const Partition& partition) {
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    if (calls_of(workload, group).empty()) continue;
    std::map<std::uint32_t, std::uint32_t> seen;
    for (const RankId rank : workload.groups[group].members) ++seen[partition.class_of_rank[rank]];
    std::map<std::uint32_t, std::uint32_t> said;
    for (const Participant& participant :
         partition.groups[partition.class_of_group[group]].participants) {
      said[participant.rank_class] += participant.count;
    }
    EXPECT_EQ(seen, said) << "group " << group;
  }
}

inline void check_flows(const Cluster& cluster, const Workload& workload,
                        const CommunicationModel& communication, const Partition& partition) {
  std::map<FlowKey, std::vector<PlainFlow>> actual;
  for (PlainFlow& link_flow : plain_flows(cluster, workload, communication)) {
    std::map<std::uint32_t, double> per_class;
    for (const LinkLoad& load : link_flow.link_flow.loads) {
      per_class[partition.class_of_link[load.link]] += load.bytes;
    }
    std::vector<std::pair<std::uint32_t, long long>> loads;
    for (const auto& [link_class, bytes] : per_class) loads.emplace_back(link_class, coarse(bytes));
    actual[{partition.class_of_group[link_flow.group], link_flow.call, link_flow.phase,
            coarse(link_flow.payload()), std::move(loads)}]
        .push_back(std::move(link_flow));
  }
  std::map<FlowKey, std::vector<FlowClass>> folded;
  for (const FlowClass& flow : partition.flows) {
    std::vector<std::pair<std::uint32_t, long long>> loads;
    for (const auto& weight : flow.weights)
      loads.emplace_back(weight.link_class, coarse(weight.bytes));
    folded[{flow.group_class, flow.call, flow.phase, coarse(flow.payload_bytes), std::move(loads)}]
        .push_back(flow);
  }
  ASSERT_EQ(actual.size(), folded.size());
  for (const auto& [key, link_flows] : actual) {
    ASSERT_TRUE(folded.contains(key))
        << "a chain of group " << link_flows[0].group << " is in no flow";
    std::map<LinkId, double> on_link;  // all members together
    for (const PlainFlow& link_flow : link_flows) {
      for (const LinkLoad& load : link_flow.link_flow.loads) on_link[load.link] += load.bytes;
    }
    std::map<std::uint32_t, double> said;  // by link class
    std::size_t members = 0;
    for (const FlowClass& flow : folded[key]) {
      members += flow.members;
      for (const auto& weight : flow.weights) {
        said[weight.link_class] += weight.weight * flow.payload_bytes;
      }
    }
    EXPECT_EQ(members, link_flows.size());
    // The sum is the same on every link of a class, also on links that no member uses.
    for (LinkId link = 0; link < cluster.links().size(); ++link) {
      const auto expected = said.find(partition.class_of_link[link]);
      const double bytes = expected == said.end() ? 0.0 : expected->second;
      EXPECT_NEAR(on_link[link], bytes, 1e-9 * bytes) << "link " << link;
    }
  }
}

inline void check_phases(const Workload& workload, const CommunicationModel& communication,
                         const Partition& partition) {
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    const auto& calls = partition.phases[partition.class_of_group[group]];
    for (const std::uint32_t call : calls_of(workload, group)) {
      const auto phases = communication.phases(workload.calls[call], gpus_of(workload, group));
      ASSERT_EQ(calls[call].size(), phases.size());
      for (std::size_t i = 0; i < phases.size(); ++i) {
        EXPECT_NEAR(calls[call][i].latency_s, phases[i].latency.value(), 1e-15);
        std::size_t link_flows = 0;
        for (const std::uint32_t flow : calls[call][i].flows) {
          link_flows += partition.flows[flow].members;
        }
        const auto groups = partition.groups[partition.class_of_group[group]].members;
        EXPECT_EQ(link_flows, phases[i].flows.size() * groups);
      }
    }
  }
}

inline void check_links(const Cluster& cluster, const Partition& partition) {
  std::size_t links = 0;
  for (LinkId id = 0; id < cluster.links().size(); ++id) {
    if (partition.class_of_link[id] == kNone) continue;
    const LinkId like = partition.links[partition.class_of_link[id]].representative;
    EXPECT_EQ(cluster.link(id).capacity.value(), cluster.link(like).capacity.value());
    ++links;
  }
  EXPECT_GE(links, partition.links.size()) << "every class has a link";
}

// Fails the running test unless the partition is equitable and described correctly.
inline void check_equitable(const Cluster& cluster, const Workload& workload,
                            const CommunicationModel& communication, const Partition& partition) {
  check_ranks(workload, partition);
  check_groups(workload, partition);
  check_links(cluster, partition);
  check_phases(workload, communication, partition);
  check_flows(cluster, workload, communication, partition);
}

struct SlowCounts {
  std::size_t ranks = 0;
  std::size_t groups = 0;
  std::size_t links = 0;
  auto operator<=>(const SlowCounts&) const = default;
};

// Assigns equal numbers to equal keys.
template <class Key>
std::vector<std::uint32_t> numbered(const std::vector<Key>& keys) {
  std::map<Key, std::uint32_t> names;
  std::vector<std::uint32_t> result;
  for (const Key& key : keys) {
    result.push_back(
        names.try_emplace(key, static_cast<std::uint32_t>(names.size())).first->second);
  }
  return result;
}

inline std::size_t distinct(const std::vector<std::uint32_t>& colours) {
  return std::set<std::uint32_t>(colours.begin(), colours.end()).size();
}

// The coarsest equitable partition by colour refinement. The first colours are the programs of
// ranks, the kinds and sizes of groups, and the kinds and capacities of links. Each round combines
// every colour with the multiset of its neighbours' colours, until nothing changes.
class SlowFold {
 public:
  SlowFold(const Cluster& cluster, const Workload& workload,
           const CommunicationModel& communication)
      : workload_(workload), flows_(plain_flows(cluster, workload, communication)) {
    for (const Rank& rank : workload.ranks) ranks_.push_back(rank.program);
    for (const Group& group : workload.groups) {
      groups_.push_back(static_cast<std::uint32_t>(group.kind) * 100000U +
                        static_cast<std::uint32_t>(group.members.size()));
    }
    std::vector<std::pair<int, double>> keys;
    for (const Link& link : cluster.links()) {
      keys.emplace_back(static_cast<int>(link.kind), link.capacity.value());
    }
    links_ = numbered(keys);
    used_.assign(links_.size(), false);
    for (const PlainFlow& link_flow : flows_) {
      for (const LinkLoad& load : link_flow.link_flow.loads) used_[load.link] = true;
    }
  }

  SlowCounts counts() {
    // A key contains the previous colour, so a round only splits classes. An unchanged number of
    // classes therefore means that no class has split.
    std::size_t before = 0;
    for (;;) {
      round();
      const std::size_t now =
          distinct(ranks_) + distinct(groups_) + distinct(links_) + distinct(flow_colours_);
      if (now == before) break;
      before = now;
    }
    std::set<std::uint32_t> links;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (used_[i]) links.insert(links_[i]);
    }
    return {distinct(ranks_), distinct(groups_), links.size()};
  }

 private:
  using Seen = std::multiset<std::tuple<std::uint32_t, long long, long long, long long>>;

  void round() {
    // Each key is the previous colour and the multiset of neighbours. Negative numbers keep entries
    // of different kinds apart.
    std::vector<std::pair<std::uint32_t, Seen>> ranks;
    std::vector<std::pair<std::uint32_t, Seen>> groups;
    std::vector<std::pair<std::uint32_t, Seen>> links;
    std::vector<std::pair<std::uint32_t, Seen>> link_flows;
    for (const std::uint32_t colour : ranks_) ranks.push_back({colour, {}});
    for (const std::uint32_t colour : groups_) groups.push_back({colour, {}});
    for (const std::uint32_t colour : links_) links.push_back({colour, {}});
    see_members(ranks, groups);
    flow_colours_.resize(flows_.size());
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const PlainFlow& link_flow = flows_[i];
      Seen& seen = link_flows.emplace_back(flow_colours_[i], Seen{}).second;
      seen.emplace(groups_[link_flow.group], -1LL - link_flow.call, link_flow.phase,
                   coarse(link_flow.payload()));
      groups[link_flow.group].second.emplace(flow_colours_[i], link_flow.call, link_flow.phase,
                                             coarse(link_flow.latency));
      for (const LinkLoad& load : link_flow.link_flow.loads) {
        seen.emplace(links_[load.link], coarse(load.bytes), 0, 0);
        links[load.link].second.emplace(flow_colours_[i], coarse(load.bytes), 0, 0);
      }
    }
    ranks_ = numbered(ranks);
    groups_ = numbered(groups);
    links_ = numbered(links);
    flow_colours_ = numbered(link_flows);
  }

  void see_members(std::vector<std::pair<std::uint32_t, Seen>>& ranks,
                   std::vector<std::pair<std::uint32_t, Seen>>& groups) const {
    for (std::size_t id = 0; id < workload_.ranks.size(); ++id) {
      const Rank& rank = workload_.ranks[id];
      std::set<std::pair<std::uint16_t, bool>> used;
      for (const Operation& op : workload_.programs[rank.program].operations) {
        if (op.kind == OpKind::Compute || op.kind == OpKind::Delay) continue;
        // a collective is symmetric in its members, while a message depends on the group rank
        used.emplace(op.slot, op.kind != OpKind::Collective);
      }
      for (const auto& [slot, sends] : used) {
        const auto [group, group_rank] = rank.slots[slot];
        const long long part = sends ? group_rank : 0;
        ranks[id].second.emplace(groups_[group], slot, part, 0);
        groups[group].second.emplace(ranks_[id], -1 - slot, part, 0);
      }
    }
  }

  const Workload& workload_;
  std::vector<PlainFlow> flows_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> groups_;
  std::vector<std::uint32_t> links_;
  std::vector<std::uint32_t> flow_colours_;
  std::vector<bool> used_;
};

inline SlowCounts slow_counts(const Cluster& cluster, const Workload& workload,
                              const CommunicationModel& communication) {
  return SlowFold(cluster, workload, communication).counts();
}

}  // namespace trainyard::test
