#include "sim/fold/contention.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/fold/apartness.hpp"
#include "sim/fold/dominated_links.hpp"
#include "sim/fold/slack_links.hpp"

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

// What some of the links say of shapes.
struct ShapeFindings {
  explicit ShapeFindings(std::size_t shapes)
      : rate_alone(shapes, kUnlimited), meets(shapes, false), meets_others(shapes, false) {}
  // Joins what other links say.
  void add(const ShapeFindings& others) {
    for (std::size_t shape = 0; shape < rate_alone.size(); ++shape) {
      rate_alone[shape] = std::min(rate_alone[shape], others.rate_alone[shape]);
      if (others.meets[shape]) meets[shape] = true;
      if (others.meets_others[shape]) meets_others[shape] = true;
    }
  }
  std::vector<double> rate_alone;
  std::vector<bool> meets;
  std::vector<bool> meets_others;
};

// Looks at links one by one; several of them at different links at once.
class LinkGaze {
 public:
  LinkGaze(const Workload& workload, const JointGraph& joint, CallOrder& order,
           const Timetable& timetable)
      : joint_(joint),
        timetable_(timetable),
        apartness_(workload, joint, order),
        found_(joint.group_of_shape.size()) {}

  // Marks those that are contended.
  void look_at(double capacity, std::span<LinkCrossings::Crossing> crossings) {
    find_company(crossings);
    for (std::size_t i = 0; i < crossings.size(); ++i) {
      const std::uint32_t shape = crossings[i].shape;
      if (company_[i] == Company::Others) found_.meets_others[shape] = true;
      if (company_[i] != Company::None) {
        crossings[i].contended = 1;
        found_.meets[shape] = true;
      } else {
        double& alone = found_.rate_alone[shape];
        alone = std::min(alone, capacity / joint_.loads[crossings[i].load]);
      }
    }
  }

  [[nodiscard]] ShapeFindings found() && { return std::move(found_); }

 private:
  using Crossings = std::span<const LinkCrossings::Crossing>;
  // Whom a chain may meet on a link.
  enum class Company : std::uint8_t { None, OwnPhase, Others };

  [[nodiscard]] const Moments& moments_of(std::uint32_t shape) const {
    const GroupId group = joint_.group_of_shape[shape];
    return timetable_[joint_.traffic_of[group]][shape - joint_.first_shape[group]];
  }

  [[nodiscard]] GroupId group_of(const LinkCrossings::Crossing& crossing) const {
    return joint_.group_of_shape[crossing.shape];
  }

  // company_, by crossing. Groups are looked at pair by pair, then the chains of each.
  void find_company(Crossings crossings) {
    company_.assign(crossings.size(), Company::Others);
    groups_here_.clear();
    for (const LinkCrossings::Crossing& crossing : crossings) {
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
  void find_company_within(Crossings of_group, std::size_t first) {
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

  const JointGraph& joint_;
  const Timetable& timetable_;
  Apartness apartness_;
  ShapeFindings found_;
  std::vector<Company> company_;  // on the link at hand
  std::vector<GroupId> groups_here_;
  std::vector<GroupId> groups_before_;  // on the link before: those of a node come in a row
  std::vector<bool> alone_here_;
  std::vector<std::pair<Moment, std::size_t>> moving_;  // who moves when, of one group
};

// Links in a row that are looked at together.
constexpr std::size_t kLinksTogether = 4096;

// Of the links that are not slack.
ShapeFindings look_at_links(const Cluster& cluster, const Workload& workload,
                            const JointGraph& joint, CallOrder& order,
                            const std::vector<bool>& slack, LinkCrossings& crossings) {
  const Timetable moments = timetable(joint);
  const auto look_with = [&](LinkGaze& gaze, std::size_t piece) {
    const auto links = std::span(joint.links).subspan(piece * kLinksTogether);
    for (const LinkId link : links.first(std::min(kLinksTogether, links.size())))
      if (!slack[link] && !crossings.of(link).empty())
        gaze.look_at(cluster.wiring().wire(link).capacity.value(), crossings.of(link));
  };
  LinkGaze here(workload, joint, order, moments);
  LinkGaze beside_it(workload, joint, order, moments);
  share_out(
      is_large(cluster), (joint.links.size() + kLinksTogether - 1) / kLinksTogether,
      [&](std::size_t piece) { look_with(beside_it, piece); },
      [&](std::size_t piece) { look_with(here, piece); });
  ShapeFindings found = std::move(here).found();
  found.add(std::move(beside_it).found());
  return found;
}

}  // namespace

Contention find_contention(const Cluster& cluster, const Workload& workload,
                           const JointGraph& joint, CallOrder& order) {
  std::optional<LinkCrossings> crossings;
  std::vector<bool> slack = beside(
      is_large(cluster), [&] { crossings.emplace(joint); },
      [&] { return slack_links(cluster, joint); });
  std::vector<LinkId> stands = dominating_links(cluster, joint, *crossings, slack);
  for (const LinkId link : joint.links)
    if (stands[link] != link) slack[link] = true;
  ShapeFindings found = look_at_links(cluster, workload, joint, order, slack, *crossings);
  return {.crossings = std::move(*crossings),
          .rate_alone = std::move(found.rate_alone),
          .meets = std::move(found.meets),
          .meets_others = std::move(found.meets_others),
          .slack = std::move(slack),
          .stands = std::move(stands)};
}

Contention all_contended(const Cluster& cluster, const JointGraph& joint) {
  const std::size_t shapes = joint.group_of_shape.size();
  LinkCrossings crossings(joint);
  for (LinkCrossings::Crossing& crossing : crossings.all()) crossing.contended = 1;
  return {.crossings = std::move(crossings),
          .rate_alone = std::vector<double>(shapes, kUnlimited),
          .meets = std::vector<bool>(shapes, true),
          .meets_others = std::vector<bool>(shapes, true),
          .slack = std::vector<bool>(cluster.links().size(), false),
          .stands = joint.row_of};
}

}  // namespace trainyard
