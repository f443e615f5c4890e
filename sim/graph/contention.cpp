#include "sim/graph/contention.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"
#include "sim/graph/call_order.hpp"
#include "sim/graph/dominated_links.hpp"
#include "sim/graph/slack_links.hpp"

namespace trainyard {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Groups on one link beyond which no pair is looked at: their chains count as contended, which is
// never wrong.
constexpr std::size_t kMostGroups = 64;

// Which calls of which groups are kept apart by a common member.
class Apartness {
 public:
  Apartness(const Workload& workload, const JointGraph& joint, CallOrder& order)
      : workload_(workload),
        joint_(joint),
        order_(order),
        first_(workload.ranks.size() + 1, 0),
        of_itself_(workload.groups.size(), Itself::Unknown) {
    for (const Membership& membership : joint.memberships) ++first_[membership.rank + 1];
    for (std::size_t rank = 0; rank + 1 < first_.size(); ++rank) first_[rank + 1] += first_[rank];
  }

  // Of a group with itself: its calls follow one another.
  [[nodiscard]] bool apart(GroupId a, GroupId b) {
    if (a == b) return of_itself(a);
    if (a > b) std::swap(a, b);
    const std::pair pair{a, b};
    if (last_pair_ != pair) {
      last_apart_ = is_pair(a) || is_pair(b) ? found_apart(a, b) : kept_apart(a, b);
      last_pair_ = pair;
    }
    return last_apart_;
  }

 private:
  enum class Itself : std::uint8_t { Unknown, Apart, Together };

  [[nodiscard]] bool of_itself(GroupId group) {
    Itself& known = of_itself_[group];
    if (known == Itself::Unknown)
      known = found_apart(group, group) ? Itself::Apart : Itself::Together;
    return known == Itself::Apart;
  }

  // Of a sender and a receiver: looked at as fast as looked up.
  [[nodiscard]] bool is_pair(GroupId group) const {
    return workload_.groups[group].members.size() <= 2;
  }

  [[nodiscard]] bool kept_apart(GroupId a, GroupId b) {
    const auto [entry, fresh] = known_.try_emplace(std::uint64_t{a} << 32U | b, false);
    if (fresh) entry->second = found_apart(a, b);
    return entry->second;
  }

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

  // Through all slots of the rank that name the two groups. Ranks of one program mostly bind their
  // slots alike: what was last found for the two slots is asked for again.
  [[nodiscard]] bool keeps_apart(RankId rank, std::uint16_t a, std::uint16_t b) {
    const std::vector<std::uint32_t>& slots = joint_.slot_of[rank];
    const std::uint32_t program = workload_.ranks[rank].program;
    Kept& kept = kept_[(program * 31U + a * 8U + b) % kept_.size()];
    if (kept.slots != nullptr && kept.program == program && kept.a == a && kept.b == b &&
        *kept.slots == slots)
      return kept.apart;
    kept = {&slots, program, a, b, are_ordered(program, slots, a, b)};
    return kept.apart;
  }

  [[nodiscard]] bool are_ordered(std::uint32_t program, const std::vector<std::uint32_t>& slots,
                                 std::uint16_t a, std::uint16_t b) {
    for (std::uint16_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != a) continue;
      for (std::uint16_t j = 0; j < slots.size(); ++j)
        if (slots[j] == b && !order_.ordered(program, i, j)) return false;
    }
    return true;
  }

  struct Kept {
    const std::vector<std::uint32_t>* slots = nullptr;
    std::uint32_t program = 0;
    std::uint16_t a = 0;
    std::uint16_t b = 0;
    bool apart = false;
  };

  const Workload& workload_;
  const JointGraph& joint_;
  CallOrder& order_;
  std::vector<std::size_t> first_;  // by rank, in JointGraph::memberships
  std::vector<Itself> of_itself_;   // by group
  std::vector<Kept> kept_ = std::vector<Kept>(4096);
  std::unordered_map<std::uint64_t, bool> known_;
  // The pair last asked for: the links of a node are looked at in a row.
  std::pair<GroupId, GroupId> last_pair_ = {kNone, kNone};
  bool last_apart_ = false;
};

// Call and phase, as one number.
using Moment = std::uint64_t;

class ContentionSearch {
 public:
  ContentionSearch(const Cluster& cluster, const Workload& workload, const JointGraph& joint,
                   CallOrder& order)
      : cluster_(cluster),
        joint_(joint),
        apartness_(workload, joint, order),
        moments_(joint.traffic.size()) {
    for (std::size_t i = 0; i < joint.traffic.size(); ++i) {
      for (const GroupCall& made : joint.traffic[i]) add_moments(made, moments_[i]);
      for (Moments& of_shape : moments_[i]) of_shape.sort();
    }
    TY_CHECK(joint.shape_loads.size() < kNone, joint.shape_loads.size());
    result_.contended.assign(joint.shape_loads.size(), false);
    result_.rate_alone.assign(joint.group_of_shape.size(), kUnlimited);
    result_.meets.assign(joint.group_of_shape.size(), false);
    result_.meets_others.assign(joint.group_of_shape.size(), false);
    std::vector<std::uint64_t> loaded;
    result_.slack = beside(
        is_large(cluster), [&] { loaded = loaded_by(cluster, joint); },
        [&] { return slack_links(cluster, joint); });
    result_.stands = dominating_links(cluster, joint, loaded, result_.slack);
    for (const LinkId link : joint.links)
      if (result_.stands[link] != link) result_.slack[link] = true;
  }

  Contention found() {
    const Crossings crossings = crossings_by_link();
    for (const LinkId link : joint_.links)
      if (!crossings.of(link).empty()) look_at(link, crossings.of(link));
    return std::move(result_);
  }

 private:
  struct Crossing {
    std::uint32_t shape = 0;
    std::uint32_t load = 0;  // index into shape_loads
  };
  // Those of a link are all[begin[link] .. begin[link + 1]), by shape and so by group.
  struct Crossings {
    std::vector<std::size_t> begin;
    std::vector<Crossing> all;
    [[nodiscard]] std::span<const Crossing> of(LinkId link) const {
      return std::span(all).subspan(begin[link], begin[link + 1] - begin[link]);
    }
  };
  // Whom a chain may meet on a link.
  enum class Company : std::uint8_t { None, OwnPhase, Others };

  // When the chains of a shape move.
  struct Moments {
    std::vector<Moment> all;  // ascending
    bool together = false;    // two of them at once
    void sort() {
      std::ranges::sort(all);
      together = std::ranges::adjacent_find(all) != all.end();
    }
  };

  static void add_moments(const GroupCall& made, std::vector<Moments>& of_shape) {
    for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
      const Moment moment = std::uint64_t{made.call} << 32U | phase;
      for (const ShapedChain& chain : made.phases[phase].chains) {
        if (chain.shape >= of_shape.size()) of_shape.resize(chain.shape + std::size_t{1});
        std::vector<Moment>& moments = of_shape[chain.shape].all;
        moments.insert(moments.end(), chain.count, moment);
      }
    }
  }

  [[nodiscard]] Crossings crossings_by_link() const {
    Crossings result;
    result.begin.assign(cluster_.links().size() + 1, 0);
    for (const ShapeLoad& load : joint_.shape_loads)
      if (!result_.slack[load.link]) ++result.begin[load.link + 1];
    std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
    result.all.resize(result.begin.back());
    std::vector<std::size_t> next(result.begin.begin(), result.begin.end() - 1);
    for (std::uint32_t shape = 0; shape < joint_.group_of_shape.size(); ++shape) {
      for (std::size_t i = joint_.shape_offsets[shape]; i < joint_.shape_offsets[shape + 1]; ++i) {
        const LinkId link = joint_.shape_loads[i].link;
        if (!result_.slack[link]) result.all[next[link]++] = {shape, static_cast<std::uint32_t>(i)};
      }
    }
    return result;
  }

  void look_at(LinkId link, std::span<const Crossing> crossings) {
    const double capacity = cluster_.link(link).capacity.value();
    find_company(crossings);
    for (std::size_t i = 0; i < crossings.size(); ++i) {
      const auto [shape, load] = crossings[i];
      if (company_[i] == Company::Others) result_.meets_others[shape] = true;
      if (company_[i] != Company::None) {
        result_.contended[load] = true;
        result_.meets[shape] = true;
      } else {
        double& alone = result_.rate_alone[shape];
        alone = std::min(alone, capacity / joint_.loads[joint_.shape_loads[load].load]);
      }
    }
  }

  [[nodiscard]] const Moments& moments_of(std::uint32_t shape) const {
    const GroupId group = joint_.group_of_shape[shape];
    return moments_[joint_.traffic_of[group]][shape - joint_.first_shape[group]];
  }

  [[nodiscard]] GroupId group_of(const Crossing& crossing) const {
    return joint_.group_of_shape[crossing.shape];
  }

  // company_, by crossing. Groups are looked at pair by pair, then the chains of each.
  void find_company(std::span<const Crossing> crossings) {
    company_.assign(crossings.size(), Company::Others);
    groups_here_.clear();
    for (const Crossing& crossing : crossings) {
      const GroupId group = group_of(crossing);
      if (groups_here_.empty() || groups_here_.back() != group) groups_here_.push_back(group);
    }
    if (groups_here_.size() > kMostGroups) return;
    if (groups_here_ != groups_before_) find_alone();
    groups_before_ = groups_here_;
    auto alone = alone_here_.begin();
    for (std::size_t begin = 0; begin < crossings.size(); ++alone) {
      const GroupId group = group_of(crossings[begin]);
      std::size_t end = begin + 1;
      while (end < crossings.size() && group_of(crossings[end]) == group) ++end;
      if (*alone) find_company_within(crossings.subspan(begin, end - begin), begin);
      begin = end;
    }
  }

  // alone_here_, by group on the link: whether it is kept apart from itself and all others. A pair
  // of which neither is has no more to tell.
  void find_alone() {
    alone_here_.assign(groups_here_.size(), true);
    for (std::size_t i = 0; i < groups_here_.size(); ++i) {
      for (std::size_t j = i; j < groups_here_.size(); ++j) {
        if (!alone_here_[i] && !alone_here_[j]) continue;
        if (!apartness_.apart(groups_here_[i], groups_here_[j]))
          alone_here_[i] = alone_here_[j] = false;
      }
    }
  }

  // Of the chains of one group, whose calls follow one another: two of them meet where they move in
  // the same phase. `first`: the place of the first in company_.
  void find_company_within(std::span<const Crossing> of_group, std::size_t first) {
    for (std::size_t i = 0; i < of_group.size(); ++i) company_[first + i] = Company::None;
    if (of_group.size() == 1 && !moments_of(of_group.front().shape).together) return;
    moving_.clear();
    for (std::size_t i = 0; i < of_group.size(); ++i)
      for (const Moment moment : moments_of(of_group[i].shape).all) moving_.emplace_back(moment, i);
    std::ranges::sort(moving_);
    for (std::size_t i = 1; i < moving_.size(); ++i) {
      if (moving_[i].first != moving_[i - 1].first) continue;
      company_[first + moving_[i].second] = Company::OwnPhase;
      company_[first + moving_[i - 1].second] = Company::OwnPhase;
    }
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  Apartness apartness_;
  std::vector<std::vector<Moments>> moments_;  // by traffic of a group, by shape
  std::vector<Company> company_;               // on the link at hand
  std::vector<GroupId> groups_here_;
  std::vector<GroupId> groups_before_;  // on the link before: those of a node come in a row
  std::vector<bool> alone_here_;
  std::vector<std::pair<Moment, std::size_t>> moving_;  // who moves when, of one group
  Contention result_;
};

}  // namespace

Contention find_contention(const Cluster& cluster, const Workload& workload,
                           const JointGraph& joint, CallOrder& order) {
  return ContentionSearch(cluster, workload, joint, order).found();
}

Contention all_contended(const Cluster& cluster, const JointGraph& joint) {
  const std::size_t shapes = joint.group_of_shape.size();
  return {.contended = std::vector<bool>(joint.shape_loads.size(), true),
          .rate_alone = std::vector<double>(shapes, kUnlimited),
          .meets = std::vector<bool>(shapes, true),
          .meets_others = std::vector<bool>(shapes, true),
          .slack = std::vector<bool>(cluster.links().size(), false),
          .stands = joint.row_of};
}

}  // namespace trainyard
