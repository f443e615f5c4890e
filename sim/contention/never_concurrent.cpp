#include "sim/contention/never_concurrent.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/concurrency.hpp"

namespace trainyard {

namespace {

// The most groups on one link whose pairs are compared. On links with more, all flows count as
// contended, which is always correct.
constexpr std::size_t kMostGroups = 64;
// The most flows of a phase that is priced before the run. The engine prices larger ones.
constexpr std::size_t kMostFlows = 16;

void add_moments(const GroupCall& made, std::vector<Moments::OfShape>& of_shape) {
  for (std::size_t phase = 0; phase < made.phases.size(); ++phase) {
    const std::uint64_t moment = std::uint64_t{made.call} << 32U | phase;
    for (const ShapedFlow& flow : made.phases[phase].flows) {
      if (flow.shape >= of_shape.size()) of_shape.resize(flow.shape + std::size_t{1});
      std::vector<std::uint64_t>& moments = of_shape[flow.shape].all;
      moments.insert(moments.end(), flow.count, moment);
    }
  }
}

bool has_few_flows(const GroupCall& made) {
  return std::ranges::all_of(
      made.phases, [](const ShapedPhase& phase) { return phase.flows.size() <= kMostFlows; });
}

// Whether calls of two groups are never concurrent. Results are cached, so each thread has its own
// object.
//
// Example: the tensor-parallel all-reduces of a rank and its all-to-alls of experts wait for each
// other through the kernels between them, so the rank has the two groups in order. An all-reduce of
// gradients on another stream may overlap both.
class NeverConcurrent {
 public:
  NeverConcurrent(const Workload& workload, const JointGraph& joint, ProgramAnalysis& analysis);

  // For a group with itself: whether its calls follow one another.
  [[nodiscard]] bool of(GroupId a, GroupId b);

 private:
  enum class Itself : std::uint8_t { Unknown, Ordered, Concurrent };

  [[nodiscard]] bool orders_itself(GroupId group);
  [[nodiscard]] bool is_pair(GroupId group) const;
  [[nodiscard]] bool cached_ordered(GroupId a, GroupId b);
  [[nodiscard]] bool compute_ordered(GroupId a, GroupId b);
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
  std::vector<std::size_t> first_;     // by rank: index in GroupPlacements::memberships
  std::vector<Itself> orders_itself_;  // indexed by group
  std::vector<Kept> kept_ = std::vector<Kept>(4096);
  std::unordered_map<std::uint64_t, bool> known_;
  // The last pair and its result: successive links of a node have the same groups.
  std::pair<GroupId, GroupId> last_pair_ = {kNone, kNone};
  bool last_ordered_ = false;
};

// Memberships are sorted by rank: a prefix sum of their counts gives the first one of each rank.
NeverConcurrent::NeverConcurrent(const Workload& workload, const JointGraph& joint,
                                 ProgramAnalysis& analysis)
    : workload_(workload),
      joint_(joint),
      analysis_(analysis),
      first_(workload.ranks.size() + 1, 0),
      orders_itself_(workload.groups.size(), Itself::Unknown) {
  for (const Membership& membership : joint.placed->memberships) ++first_[membership.rank + 1];
  for (std::size_t rank = 0; rank + 1 < first_.size(); ++rank) first_[rank + 1] += first_[rank];
}

bool NeverConcurrent::of(GroupId a, GroupId b) {
  if (a == b) return orders_itself(a);
  if (a > b) std::swap(a, b);
  const std::pair pair{a, b};
  if (last_pair_ != pair) {
    last_ordered_ = is_pair(a) || is_pair(b) ? compute_ordered(a, b) : cached_ordered(a, b);
    last_pair_ = pair;
  }
  return last_ordered_;
}

bool NeverConcurrent::orders_itself(GroupId group) {
  Itself& known = orders_itself_[group];
  if (known == Itself::Unknown)
    known = compute_ordered(group, group) ? Itself::Ordered : Itself::Concurrent;
  return known == Itself::Ordered;
}

// Whether the group has at most two members. Comparing it is as fast as a lookup.
bool NeverConcurrent::is_pair(GroupId group) const {
  return workload_.groups[group].members.size() <= 2;
}

bool NeverConcurrent::cached_ordered(GroupId a, GroupId b) {
  const auto [entry, fresh] = known_.try_emplace(std::uint64_t{a} << 32U | b, false);
  if (fresh) entry->second = compute_ordered(a, b);
  return entry->second;
}

// One member of both groups that has their calls in order is enough.
bool NeverConcurrent::compute_ordered(GroupId a, GroupId b) {
  if (workload_.groups[a].members.size() > workload_.groups[b].members.size()) std::swap(a, b);
  return std::ranges::any_of(workload_.groups[a].members, [&](RankId rank) {
    const Membership* in_a = membership(rank, a);
    const Membership* in_b = membership(rank, b);
    return in_a != nullptr && in_b != nullptr && orders(rank, in_a->slot, in_b->slot);
  });
}

const Membership* NeverConcurrent::membership(RankId rank, GroupId group) const {
  for (std::size_t i = first_[rank]; i < first_[rank + 1]; ++i) {
    const Membership& one = joint_.placed->memberships[i];
    if (one.group == group) return &one;
  }
  return nullptr;
}

// Whether the rank has the calls of the two groups in order, through all its slots that name them.
// Ranks of one program mostly bind their slots equally, so the last result for the two slots is
// reused when the binding is equal. kept_ is a cache with one place per hash: another key takes the
// place over.
bool NeverConcurrent::orders(RankId rank, std::uint16_t a, std::uint16_t b) {
  const std::vector<std::uint32_t>& slots = joint_.placed->slot_of[rank];
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

// Whether the flows of a shape share the links that were looked at with other flows.
struct Met {
  explicit Met(std::size_t shapes) : any(shapes, false), others(shapes, false) {}
  std::vector<bool> any;     // by shape: with any flow
  std::vector<bool> others;  // by shape: with flows outside their own phase

  void add(const Met& more) {
    for (std::size_t shape = 0; shape < any.size(); ++shape) {
      if (more.any[shape]) any[shape] = true;
      if (more.others[shape]) others[shape] = true;
    }
  }
};

// Looks at links one by one. Several objects may work on different links at the same time.
class LinkContention {
 public:
  // `contended`: by number of a user; this object writes it.
  LinkContention(const Workload& workload, const JointGraph& joint, ProgramAnalysis& analysis,
                 const Moments& moments, std::vector<std::uint8_t>& contended)
      : joint_(joint),
        moments_(moments),
        contended_(contended),
        never_concurrent_(workload, joint, analysis),
        met_(joint.group_of_shape.size()) {}

  // Marks the users that are contended. `first`: the number of the first user.
  void look_at(std::span<const LinkUsers::User> users, std::uint32_t first) {
    find_contenders(users);
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (meets_[i] == Meets::None) continue;
      contended_[first + i] = 1;
      met_.any[users[i].shape] = true;
      if (meets_[i] == Meets::Others) met_.others[users[i].shape] = true;
    }
  }

  [[nodiscard]] const Met& met() const { return met_; }

 private:
  using Users = std::span<const LinkUsers::User>;
  // The flows that a flow may share a link with.
  enum class Meets : std::uint8_t { None, OwnPhase, Others };

  [[nodiscard]] const Moments::OfShape& moments_of(std::uint32_t shape) const {
    const GroupId group = joint_.group_of_shape[shape];
    return moments_.of_traffic[moments_.of_group[group]][shape - joint_.first_shape[group]];
  }

  [[nodiscard]] GroupId group_of(const LinkUsers::User& user) const {
    return joint_.group_of_shape[user.shape];
  }

  // Fills meets_, by user. Compares pairs of groups first, then the flows within each group. Users
  // are in the order of groups, so those of one group are adjacent. Cost: the square of the groups
  // on the link, at most kMostGroups.
  void find_contenders(Users users) {
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
      if (*alone != 0) find_contenders_within(users.subspan(begin, end - begin), begin);
      begin = end;
    }
  }

  // Fills exclusive_here_, by group on the link: whether its calls are never concurrent with each
  // other or with those of the other groups. A pair is skipped when neither of the two is exclusive
  // any more.
  void find_exclusive() {
    exclusive_here_.assign(groups_here_.size(), 1);
    for (std::size_t i = 0; i < groups_here_.size(); ++i) {
      for (std::size_t j = i; j < groups_here_.size(); ++j) {
        if (exclusive_here_[i] == 0 && exclusive_here_[j] == 0) continue;
        if (!never_concurrent_.of(groups_here_[i], groups_here_[j]))
          exclusive_here_[i] = exclusive_here_[j] = 0;
      }
    }
  }

  // Finds the flows of one group that move in the same phase. The calls of the group follow one
  // another, so other phases are never concurrent. `first`: the index of the first flow in meets_.
  void find_contenders_within(Users of_group, std::size_t first) {
    for (std::size_t i = 0; i < of_group.size(); ++i) meets_[first + i] = Meets::None;
    if (of_group.size() == 1 && !moments_of(of_group.front().shape).together) return;
    moving_.clear();
    for (std::size_t i = 0; i < of_group.size(); ++i)
      for (const std::uint64_t moment : moments_of(of_group[i].shape).all)
        moving_.emplace_back(moment, i);
    std::ranges::sort(moving_);
    // Flows of one moment are adjacent. A shape that moves two flows in one phase is there twice
    // and meets itself.
    for (std::size_t i = 1; i < moving_.size(); ++i) {
      if (moving_[i].first != moving_[i - 1].first) continue;
      meets_[first + moving_[i].second] = Meets::OwnPhase;
      meets_[first + moving_[i - 1].second] = Meets::OwnPhase;
    }
  }

  const JointGraph& joint_;
  const Moments& moments_;
  std::vector<std::uint8_t>& contended_;
  NeverConcurrent never_concurrent_;
  Met met_;
  std::vector<Meets> meets_;  // on the present link
  std::vector<GroupId> groups_here_;
  // Groups of the previous link: successive links of a node have the same groups.
  std::vector<GroupId> groups_before_;
  std::vector<std::uint8_t> exclusive_here_;  // bytes, which are filled faster than bits
  std::vector<std::pair<std::uint64_t, std::size_t>> moving_;  // phase and user, of one group
};

// Links per piece of work.
constexpr std::size_t kLinksTogether = 4096;

// By group: whether its flows share links with each other, only within a phase, and are few.
std::vector<bool> closed_groups(const JointGraph& joint, const Moments& moments, const Met& met) {
  std::vector<bool> closed(moments.of_group.size(), false);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape)
    if (met.any[shape]) closed[joint.group_of_shape[shape]] = true;
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape)
    if (met.others[shape]) closed[joint.group_of_shape[shape]] = false;
  for (GroupId group = 0; group < closed.size(); ++group)
    if (!moments.few_flows[moments.of_group[group]]) closed[group] = false;
  return closed;
}

// Removes the marks from users of closed groups, and collects the links where other marks are left.
void finish(const JointGraph& joint, const LinkUsers& users, Concurrency& found) {
  for (std::uint32_t i = 0; i < joint.links.size(); ++i) {
    bool any = false;
    std::uint32_t number = users.first(joint.links[i]);
    for (const LinkUsers::User& user : users.of(joint.links[i])) {
      std::uint8_t& contended = found.contended[number++];
      if (contended != 0 && found.closed[joint.group_of_shape[user.shape]]) contended = 0;
      any = any || contended != 0;
    }
    if (any) found.links.push_back(i);
  }
}

}  // namespace

Moments::Moments(const GroupTraffic& traffic)
    : of_traffic(traffic.calls.size()), of_group(traffic.of_group) {
  for (std::size_t i = 0; i < traffic.calls.size(); ++i) {
    for (const GroupCall& made : traffic.calls[i]) add_moments(made, of_traffic[i]);
    few_flows.push_back(std::ranges::all_of(traffic.calls[i], has_few_flows));
    for (OfShape& moments : of_traffic[i]) {
      std::ranges::sort(moments.all);
      moments.together = std::ranges::adjacent_find(moments.all) != moments.all.end();
    }
  }
}

Concurrency find_concurrency(const Cluster& cluster, const Workload& workload,
                             const JointGraph& joint, ProgramAnalysis& analysis,
                             const Moments& moments, const std::vector<bool>& redundant,
                             const LinkUsers& users) {
  Concurrency found{.contended = std::vector<std::uint8_t>(users.size(), 0), .closed = {}};
  const auto look_with = [&](LinkContention& contenders, std::size_t piece) {
    const auto links = std::span(joint.links).subspan(piece * kLinksTogether);
    for (const LinkId link : links.first(std::min(kLinksTogether, links.size())))
      if (!redundant[link] && !users.of(link).empty())
        contenders.look_at(users.of(link), users.first(link));
  };
  LinkContention here(workload, joint, analysis, moments, found.contended);
  LinkContention on_second_thread(workload, joint, analysis, moments, found.contended);
  parallel_for(
      is_large(cluster), (joint.links.size() + kLinksTogether - 1) / kLinksTogether,
      [&](std::size_t piece) { look_with(on_second_thread, piece); },
      [&](std::size_t piece) { look_with(here, piece); });
  Met met = here.met();
  met.add(on_second_thread.met());
  found.closed = closed_groups(joint, moments, met);
  finish(joint, users, found);
  return found;
}

Concurrency all_concurrent(const JointGraph& joint, const LinkUsers& users) {
  Concurrency all{.contended = std::vector<std::uint8_t>(users.size(), 1),
                  .closed = std::vector<bool>(joint.first_shape.size() - 1, false)};
  for (std::uint32_t i = 0; i < joint.links.size(); ++i) all.links.push_back(i);
  return all;
}

std::size_t footprint(const Concurrency& concurrency) {
  return concurrency.contended.size() + concurrency.closed.size() / 8 +
         concurrency.links.size() * sizeof(std::uint32_t);
}

}  // namespace trainyard
