#include "sim/contention/link_limits.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/contention/closed_phases.hpp"
#include "sim/contention/never_concurrent.hpp"
#include "sim/contention/redundant_links.hpp"

namespace trainyard {

namespace {

std::vector<LinkId> each_itself(std::size_t links) {
  std::vector<LinkId> result(links);
  std::iota(result.begin(), result.end(), LinkId{});
  return result;
}

// The joint graph with what the exclusive links of a chain allow as a cap of its own. Groups that
// do the same and whose shapes may go as fast still do the same.
JointGraph with_caps(JointGraph joint, const LinkLimits& limits) {
  std::vector<std::vector<GroupCall>> capped;
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, KeyHash> known;
  std::vector<std::uint64_t> key;
  for (GroupId group = 0; group < joint.traffic_of.size(); ++group) {
    const auto rates =
        std::span(limits.rate_alone).subspan(joint.first_shape[group], joint.shapes_of(group));
    key.assign(1, joint.traffic_of[group]);
    for (const double rate : rates) key.push_back(std::bit_cast<std::uint64_t>(rate));
    auto place = known.find(key);
    if (place == known.end()) {
      place = known.emplace(key, static_cast<std::uint32_t>(capped.size())).first;
      capped.push_back(joint.calls_of(group));
      for (GroupCall& made : capped.back())
        for (ShapedPhase& phase : made.phases)
          for (ShapedChain& chain : phase.chains)
            chain.rate_cap_bytes_per_s = std::min(chain.rate_cap_bytes_per_s, rates[chain.shape]);
    }
    joint.traffic_of[group] = place->second;
  }
  joint.traffic = std::move(capped);
  return joint;
}

}  // namespace

LinkUsers::LinkUsers(const JointGraph& joint)
    : begin_(joint.parallel_of.size() + 1, 0), users_(joint.shape_loads.size()) {
  TY_CHECK(joint.shape_loads.size() < kNone, joint.shape_loads.size());
  TY_CHECK(joint.loads.size() <= kNone >> 1U, joint.loads.size());
  for (const ShapeLoad& load : joint.shape_loads) ++begin_[load.link + std::size_t{1}];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape)
    for (const auto& [link, load] : joint.shape(shape))
      users_[next[link]++] = {shape, load & (kNone >> 1U), 0};
}

LinkUsers::User& LinkUsers::at(LinkId link, std::uint32_t shape) {
  const std::span<User> here = of(link);
  const auto place = std::ranges::lower_bound(here, shape, {}, &User::shape);
  TY_CHECK(place != here.end() && place->shape == shape, link, shape);
  return *place;
}

LinkLimits every_link_limits(const JointGraph& joint) {
  const std::size_t shapes = joint.group_of_shape.size();
  LinkUsers users(joint);
  for (LinkUsers::User& user : users.all()) user.contended = 1;
  const std::size_t links = joint.parallel_of.size();
  return {.users = std::move(users),
          .redundant = std::vector<bool>(links, false),
          .implied_by = each_itself(links),
          .rate_alone = std::vector<double>(shapes, std::numeric_limits<double>::infinity()),
          .meets = std::vector<bool>(shapes, true),
          .meets_others = std::vector<bool>(shapes, true)};
}

LinkLimits limit_links(const Cluster& cluster, const Workload& workload, const JointGraph& joint,
                       ProgramAnalysis& analysis) {
  std::optional<LinkUsers> users;
  std::vector<bool> redundant = run_concurrently(
      is_large(cluster), [&] { users.emplace(joint); },
      [&] { return non_blocking_links(cluster, joint); });
  std::vector<LinkId> implied_by = series_links(cluster, joint, *users, redundant);
  for (const LinkId link : joint.links)
    if (implied_by[link] != link) redundant[link] = true;
  Concurrency found = find_concurrency(cluster, workload, joint, analysis, redundant, *users);
  return {.users = std::move(*users),
          .redundant = std::move(redundant),
          .implied_by = std::move(implied_by),
          .rate_alone = std::move(found.rate_alone),
          .meets = std::move(found.meets),
          .meets_others = std::move(found.meets_others)};
}

Contention find_contention(const Cluster& cluster, const Workload& workload,
                           const CommunicationModel& communication,
                           const ContentionOptions& options) {
  std::optional<ProgramAnalysis> found_here;
  ProgramAnalysis& analysis =
      options.analysis != nullptr ? *options.analysis : found_here.emplace(workload);
  JointGraph joint = join(cluster, workload, analysis, communication, options.places);
  if (!options.drop_uncontended) {
    LinkLimits limits = every_link_limits(joint);
    return {std::move(joint), std::move(limits)};
  }
  LinkLimits limits = limit_links(cluster, workload, joint, analysis);
  joint = with_caps(std::move(joint), limits);
  return close_phases(cluster, {std::move(joint), std::move(limits)});
}

}  // namespace trainyard
