#include "sim/graph/contention.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/graph/call_order.hpp"
#include "sim/graph/slack_links.hpp"

namespace trainyard {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Chains on one link beyond which no pair is looked at: they count as contended, which is never
// wrong.
constexpr std::size_t kMostChains = 64;

// Which calls of which groups are kept apart by a common member.
class Apartness {
 public:
  Apartness(const Workload& workload, const JointGraph& joint)
      : workload_(workload), joint_(joint), order_(workload), first_(workload.ranks.size() + 1, 0) {
    for (const Membership& membership : joint.memberships) ++first_[membership.rank + 1];
    for (std::size_t rank = 0; rank + 1 < first_.size(); ++rank) first_[rank + 1] += first_[rank];
  }

  // Of a group with itself: its calls follow one another.
  [[nodiscard]] bool apart(GroupId a, GroupId b) {
    if (a > b) std::swap(a, b);
    const auto [entry, fresh] = known_.try_emplace(std::uint64_t{a} << 32U | b, false);
    if (fresh) entry->second = found_apart(a, b);
    return entry->second;
  }

 private:
  [[nodiscard]] bool found_apart(GroupId a, GroupId b) {
    if (workload_.groups[a].members.size() > workload_.groups[b].members.size()) std::swap(a, b);
    return std::ranges::any_of(workload_.groups[a].members, [&](RankId rank) {
      const Membership* in_a = membership(rank, a);
      const Membership* in_b = membership(rank, b);
      return in_a != nullptr && in_b != nullptr && keeps_apart(rank, in_a->slot, in_b->slot);
    });
  }

  [[nodiscard]] const Membership* membership(RankId rank, GroupId group) const {
    for (std::size_t i = first_[rank]; i < first_[rank + 1]; ++i) {
      if (joint_.memberships[i].group == group) return &joint_.memberships[i];
    }
    return nullptr;
  }

  // Through all slots of the rank that name the two groups.
  [[nodiscard]] bool keeps_apart(RankId rank, std::uint16_t a, std::uint16_t b) {
    const std::vector<std::uint32_t>& slots = joint_.slot_of[rank];
    for (std::uint16_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != a) continue;
      for (std::uint16_t j = 0; j < slots.size(); ++j) {
        if (slots[j] == b && !order_.ordered(workload_.ranks[rank].program, i, j)) return false;
      }
    }
    return true;
  }

  const Workload& workload_;
  const JointGraph& joint_;
  CallOrder order_;
  std::vector<std::size_t> first_;  // by rank, in JointGraph::memberships
  std::unordered_map<std::uint64_t, bool> known_;
};

// Call and phase, as one number.
using Moment = std::uint64_t;

class ContentionSearch {
 public:
  ContentionSearch(const Cluster& cluster, const Workload& workload, const JointGraph& joint)
      : cluster_(cluster),
        joint_(joint),
        apartness_(workload, joint),
        moments_(joint.group_of_shape.size()) {
    for (const std::vector<GroupCall>& calls : joint.traffic) {
      for (const GroupCall& made : calls) add_moments(made);
    }
    result_.contended.assign(joint.shape_loads.size(), false);
    result_.rate_alone.assign(joint.group_of_shape.size(), kUnlimited);
    result_.meets_others.assign(joint.group_of_shape.size(), false);
    result_.slack = slack_links(cluster, joint);
  }

  Contention found() {
    std::vector<std::vector<Crossing>> crossings(cluster_.links().size());
    for (std::uint32_t shape = 0; shape < moments_.size(); ++shape) {
      for (std::size_t i = joint_.shape_offsets[shape]; i < joint_.shape_offsets[shape + 1]; ++i) {
        const LinkId link = joint_.shape_loads[i].link;
        if (!result_.slack[link]) crossings[link].push_back({shape, i});
      }
    }
    for (const LinkId link : joint_.links) look_at(link, crossings[link]);
    return std::move(result_);
  }

 private:
  struct Crossing {
    std::uint32_t shape = 0;
    std::size_t load = 0;  // index into shape_loads
  };

  void add_moments(const GroupCall& made) {
    for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
      const Moment moment = std::uint64_t{made.call} << 32U | phase;
      for (const ShapedChain& chain : made.phases[phase].chains) {
        std::vector<Moment>& moments = moments_[chain.shape];
        moments.insert(moments.end(), chain.count, moment);
      }
    }
  }

  // Whom a chain may meet on a link.
  enum class Company : std::uint8_t { None, OwnPhase, Others };

  void look_at(LinkId link, std::span<const Crossing> crossings) {
    const double capacity = cluster_.link(link).capacity.value();
    for (const auto& [shape, load] : crossings) {
      const Company company = company_of(shape, crossings);
      if (company == Company::Others) result_.meets_others[shape] = true;
      if (company != Company::None) {
        result_.contended[load] = true;
      } else {
        double& alone = result_.rate_alone[shape];
        alone = std::min(alone, capacity / joint_.loads[joint_.shape_loads[load].load]);
      }
    }
  }

  [[nodiscard]] Company company_of(std::uint32_t shape, std::span<const Crossing> crossings) {
    if (crossings.size() > kMostChains) return Company::Others;
    Company company = Company::None;
    for (const Crossing& other : crossings) {
      company = std::max(company, company_of(shape, other.shape));
    }
    return company;
  }

  // Of a shape with itself: two equal chains of one phase, or two of its calls at once.
  [[nodiscard]] Company company_of(std::uint32_t a, std::uint32_t b) {
    const GroupId group = joint_.group_of_shape[a];
    if (!apartness_.apart(group, joint_.group_of_shape[b])) return Company::Others;
    if (group != joint_.group_of_shape[b]) return Company::None;
    const bool together =
        a == b ? std::ranges::adjacent_find(moments_[a]) != moments_[a].end()
               : std::ranges::find_first_of(moments_[a], moments_[b]) != moments_[a].end();
    return together ? Company::OwnPhase : Company::None;
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  Apartness apartness_;
  std::vector<std::vector<Moment>> moments_;  // by shape, ascending
  Contention result_;
};

}  // namespace

Contention find_contention(const Cluster& cluster, const Workload& workload,
                           const JointGraph& joint) {
  return ContentionSearch(cluster, workload, joint).found();
}

Contention all_contended(const Cluster& cluster, const JointGraph& joint) {
  const std::size_t shapes = joint.group_of_shape.size();
  return {.contended = std::vector<bool>(joint.shape_loads.size(), true),
          .rate_alone = std::vector<double>(shapes, kUnlimited),
          .meets_others = std::vector<bool>(shapes, true),
          .slack = std::vector<bool>(cluster.links().size(), false)};
}

}  // namespace trainyard
