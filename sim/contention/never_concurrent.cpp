#include "sim/contention/never_concurrent.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/concurrency.hpp"

namespace trainyard {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Groups on one link beyond which no pair is looked at: their chains count as contended, which is
// never wrong.
constexpr std::size_t kMostGroups = 64;

// Call and phase, as one number.
using Moment = std::uint64_t;

// When the chains of a shape move.
struct Moments {
  std::vector<Moment> all;  // ascending
  bool together = false;    // two of them at once
  void sort() {
    std::ranges::sort(all);
    together = std::ranges::adjacent_find(all) != all.end();
  }
};

// By traffic of a group, by shape.
using Timetable = std::vector<std::vector<Moments>>;

void add_moments(const GroupCall& made, std::vector<Moments>& of_shape) {
  for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
    const Moment moment = std::uint64_t{made.call} << 32U | phase;
    for (const ShapedChain& chain : made.phases[phase].chains) {
      if (chain.shape >= of_shape.size()) of_shape.resize(chain.shape + std::size_t{1});
      std::vector<Moment>& moments = of_shape[chain.shape].all;
      moments.insert(moments.end(), chain.count, moment);
    }
  }
}

Timetable timetable(const JointGraph& joint) {
  Timetable result(joint.traffic.size());
  for (std::size_t i = 0; i < joint.traffic.size(); ++i) {
    for (const GroupCall& made : joint.traffic[i]) add_moments(made, result[i]);
    for (Moments& of_shape : result[i]) of_shape.sort();
  }
  return result;
}

// What one thread found and what another did.
Concurrency both(Concurrency one, const Concurrency& other) {
  for (std::size_t shape = 0; shape < one.rate_alone.size(); ++shape) {
    one.rate_alone[shape] = std::min(one.rate_alone[shape], other.rate_alone[shape]);
    if (other.meets[shape]) one.meets[shape] = true;
    if (other.meets_others[shape]) one.meets_others[shape] = true;
  }
  return one;
}

// Whether calls of two groups are never concurrent. It remembers what it was asked: one for each
// thread.
class NeverConcurrent {
 public:
  NeverConcurrent(const Workload& workload, const JointGraph& joint, ProgramAnalysis& analysis);

  // Of a group with itself: its calls follow one another.
  [[nodiscard]] bool of(GroupId a, GroupId b);

 private:
  enum class Itself : std::uint8_t { Unknown, Ordered, Concurrent };

  [[nodiscard]] bool orders_itself(GroupId group);
  [[nodiscard]] bool is_pair(GroupId group) const;
  [[nodiscard]] bool kept_ordered(GroupId a, GroupId b);
  [[nodiscard]] bool found_ordered(GroupId a, GroupId b);
  [[nodiscard]] const Membership* membership(RankId rank, GroupId group) const;
  [[nodiscard]] bool orders(RankId rank, std::uint16_t a, std::uint16_t b);
  [[nodiscard]] bool are_ordered(std::uint32_t program, const std::vector<std::uint32_t>& slots,
                                 std::uint16_t a, std::uint16_t b);

  struct Kept {
    const std::vector<std::uint32_t>* slots = nullptr;
    std::uint32_t program = 0;
    std::uint16_t a = 0;
    std::uint16_t b = 0;
    bool ordered = false;
  };

  const Workload& workload_;
  const JointGraph& joint_;
  ProgramAnalysis& analysis_;
  std::vector<std::size_t> first_;     // by rank, in JointGraph::memberships
  std::vector<Itself> orders_itself_;  // by group
  std::vector<Kept> kept_ = std::vector<Kept>(4096);
  std::unordered_map<std::uint64_t, bool> known_;
  // The pair last asked for: the links of a node are looked at in a row.
  std::pair<GroupId, GroupId> last_pair_ = {kNone, kNone};
  bool last_ordered_ = false;
};

NeverConcurrent::NeverConcurrent(const Workload& workload, const JointGraph& joint,
                                 ProgramAnalysis& analysis)
    : workload_(workload),
      joint_(joint),
      analysis_(analysis),
      first_(workload.ranks.size() + 1, 0),
      orders_itself_(workload.groups.size(), Itself::Unknown) {
  for (const Membership& membership : joint.memberships) ++first_[membership.rank + 1];
  for (std::size_t rank = 0; rank + 1 < first_.size(); ++rank) first_[rank + 1] += first_[rank];
}

bool NeverConcurrent::of(GroupId a, GroupId b) {
  if (a == b) return orders_itself(a);
  if (a > b) std::swap(a, b);
  const std::pair pair{a, b};
  if (last_pair_ != pair) {
    last_ordered_ = is_pair(a) || is_pair(b) ? found_ordered(a, b) : kept_ordered(a, b);
    last_pair_ = pair;
  }
  return last_ordered_;
}

bool NeverConcurrent::orders_itself(GroupId group) {
  Itself& known = orders_itself_[group];
  if (known == Itself::Unknown)
    known = found_ordered(group, group) ? Itself::Ordered : Itself::Concurrent;
  return known == Itself::Ordered;
}

// Of a sender and a receiver: looked at as fast as looked up.
bool NeverConcurrent::is_pair(GroupId group) const {
  return workload_.groups[group].members.size() <= 2;
}

bool NeverConcurrent::kept_ordered(GroupId a, GroupId b) {
  const auto [entry, fresh] = known_.try_emplace(std::uint64_t{a} << 32U | b, false);
  if (fresh) entry->second = found_ordered(a, b);
  return entry->second;
}

bool NeverConcurrent::found_ordered(GroupId a, GroupId b) {
  if (workload_.groups[a].members.size() > workload_.groups[b].members.size()) std::swap(a, b);
  return std::ranges::any_of(workload_.groups[a].members, [&](RankId rank) {
    const Membership* in_a = membership(rank, a);
    const Membership* in_b = membership(rank, b);
    return in_a != nullptr && in_b != nullptr && orders(rank, in_a->slot, in_b->slot);
  });
}

const Membership* NeverConcurrent::membership(RankId rank, GroupId group) const {
  for (std::size_t i = first_[rank]; i < first_[rank + 1]; ++i) {
    if (joint_.memberships[i].group == group) return &joint_.memberships[i];
  }
  return nullptr;
}

// Through all slots of the rank that name the two groups. Ranks of one program mostly bind their
// slots alike: what was last found for the two slots is asked for again.
bool NeverConcurrent::orders(RankId rank, std::uint16_t a, std::uint16_t b) {
  const std::vector<std::uint32_t>& slots = joint_.slot_of[rank];
  const std::uint32_t program = workload_.ranks[rank].program;
  Kept& kept = kept_[(program * 31U + a * 8U + b) % kept_.size()];
  if (kept.slots != nullptr && kept.program == program && kept.a == a && kept.b == b &&
      *kept.slots == slots)
    return kept.ordered;
  kept = {&slots, program, a, b, are_ordered(program, slots, a, b)};
  return kept.ordered;
}

bool NeverConcurrent::are_ordered(std::uint32_t program, const std::vector<std::uint32_t>& slots,
                                  std::uint16_t a, std::uint16_t b) {
  for (std::uint16_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != a) continue;
    for (std::uint16_t j = 0; j < slots.size(); ++j)
      if (slots[j] == b && !analysis_.ordered(program, i, j)) return false;
  }
  return true;
}

// Looks at links one by one; several of them at different links at once.
class LinkMeetings {
 public:
  LinkMeetings(const Workload& workload, const JointGraph& joint, ProgramAnalysis& analysis,
               const Timetable& timetable)
      : joint_(joint),
        timetable_(timetable),
        never_concurrent_(workload, joint, analysis),
        found_(joint.group_of_shape.size()) {}

  // Marks those that are contended.
  void look_at(double capacity, std::span<LinkUsers::User> users) {
    find_meetings(users);
    for (std::size_t i = 0; i < users.size(); ++i) {
      const std::uint32_t shape = users[i].shape;
      if (meets_[i] == Meets::Others) found_.meets_others[shape] = true;
      if (meets_[i] != Meets::None) {
        users[i].contended = 1;
        found_.meets[shape] = true;
      } else {
        double& alone = found_.rate_alone[shape];
        alone = std::min(alone, capacity / joint_.loads[users[i].load]);
      }
    }
  }

  [[nodiscard]] Concurrency found() && { return std::move(found_); }

 private:
  using Users = std::span<const LinkUsers::User>;
  // Whom a chain may meet on a link.
  enum class Meets : std::uint8_t { None, OwnPhase, Others };

  [[nodiscard]] const Moments& moments_of(std::uint32_t shape) const {
    const GroupId group = joint_.group_of_shape[shape];
    return timetable_[joint_.traffic_of[group]][shape - joint_.first_shape[group]];
  }

  [[nodiscard]] GroupId group_of(const LinkUsers::User& user) const {
    return joint_.group_of_shape[user.shape];
  }

  // meets_, by user. Groups are looked at pair by pair, then the chains of each.
  void find_meetings(Users users) {
    meets_.assign(users.size(), Meets::Others);
    groups_here_.clear();
    for (const LinkUsers::User& user : users) {
      const GroupId group = group_of(user);
      if (groups_here_.empty() || groups_here_.back() != group) groups_here_.push_back(group);
    }
    if (groups_here_.size() > kMostGroups) return;
    if (groups_here_ != groups_before_) find_exclusive();
    groups_before_ = groups_here_;
    auto alone = exclusive_here_.begin();
    for (std::size_t begin = 0; begin < users.size(); ++alone) {
      const GroupId group = group_of(users[begin]);
      std::size_t end = begin + 1;
      while (end < users.size() && group_of(users[end]) == group) ++end;
      if (*alone) find_meetings_within(users.subspan(begin, end - begin), begin);
      begin = end;
    }
  }

  // exclusive_here_, by group on the link: whether it is kept apart from itself and all others. A
  // pair of which neither is has no more to tell.
  void find_exclusive() {
    exclusive_here_.assign(groups_here_.size(), true);
    for (std::size_t i = 0; i < groups_here_.size(); ++i) {
      for (std::size_t j = i; j < groups_here_.size(); ++j) {
        if (!exclusive_here_[i] && !exclusive_here_[j]) continue;
        if (!never_concurrent_.of(groups_here_[i], groups_here_[j]))
          exclusive_here_[i] = exclusive_here_[j] = false;
      }
    }
  }

  // Of the chains of one group, whose calls follow one another: two of them meet where they move in
  // the same phase. `first`: the place of the first in meets_.
  void find_meetings_within(Users of_group, std::size_t first) {
    for (std::size_t i = 0; i < of_group.size(); ++i) meets_[first + i] = Meets::None;
    if (of_group.size() == 1 && !moments_of(of_group.front().shape).together) return;
    moving_.clear();
    for (std::size_t i = 0; i < of_group.size(); ++i)
      for (const Moment moment : moments_of(of_group[i].shape).all) moving_.emplace_back(moment, i);
    std::ranges::sort(moving_);
    for (std::size_t i = 1; i < moving_.size(); ++i) {
      if (moving_[i].first != moving_[i - 1].first) continue;
      meets_[first + moving_[i].second] = Meets::OwnPhase;
      meets_[first + moving_[i - 1].second] = Meets::OwnPhase;
    }
  }

  const JointGraph& joint_;
  const Timetable& timetable_;
  NeverConcurrent never_concurrent_;
  Concurrency found_;
  std::vector<Meets> meets_;  // on the link at hand
  std::vector<GroupId> groups_here_;
  std::vector<GroupId> groups_before_;  // on the link before: those of a node come in a row
  std::vector<bool> exclusive_here_;
  std::vector<std::pair<Moment, std::size_t>> moving_;  // who moves when, of one group
};

// Links in a row that are looked at together.
constexpr std::size_t kLinksTogether = 4096;

}  // namespace

Concurrency::Concurrency(std::size_t shapes)
    : rate_alone(shapes, kUnlimited), meets(shapes, false), meets_others(shapes, false) {}

Concurrency find_concurrency(const Cluster& cluster, const Workload& workload,
                             const JointGraph& joint, ProgramAnalysis& analysis,
                             const std::vector<bool>& redundant, LinkUsers& users) {
  const Timetable moments = timetable(joint);
  const auto look_with = [&](LinkMeetings& meetings, std::size_t piece) {
    const auto links = std::span(joint.links).subspan(piece * kLinksTogether);
    for (const LinkId link : links.first(std::min(kLinksTogether, links.size())))
      if (!redundant[link] && !users.of(link).empty())
        meetings.look_at(cluster.wiring().wire(link).capacity.value(), users.of(link));
  };
  LinkMeetings here(workload, joint, analysis, moments);
  LinkMeetings beside_it(workload, joint, analysis, moments);
  parallel_for(
      is_large(cluster), (joint.links.size() + kLinksTogether - 1) / kLinksTogether,
      [&](std::size_t piece) { look_with(beside_it, piece); },
      [&](std::size_t piece) { look_with(here, piece); });
  return both(std::move(here).found(), std::move(beside_it).found());
}

}  // namespace trainyard
