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
#include "sim/base/mixed.hpp"
#include "sim/contention/closed_phases.hpp"
#include "sim/contention/never_concurrent.hpp"
#include "sim/contention/redundant_links.hpp"

namespace trainyard {

namespace {

// By shape: the rate that its exclusive links allow, in bytes/s of its most loaded link. Infinity:
// no limit.
std::vector<double> exclusive_rates(const Cluster& cluster, const JointGraph& joint,
                                    const LinkLimits& limits) {
  const std::vector<std::uint8_t>& contended = limits.concurrency->contended;
  std::vector<double> rates(joint.group_of_shape.size(), std::numeric_limits<double>::infinity());
  for (const LinkId link : joint.links) {
    if (limits.redundant[link]) continue;
    const double capacity = cluster.wiring().wire(link).capacity.value();
    std::uint32_t number = limits.users->first(link);
    for (const auto& [shape, load] : limits.users->of(link))
      if (contended[number++] == 0)
        rates[shape] = std::min(rates[shape], capacity / joint.loads[load]);
  }
  return rates;
}

// Adds the limits of exclusive links to the caps of flows. Groups that shared their traffic and
// whose shapes have equal limits still share it: the key of a group is its traffic and the limits
// of its shapes, bit by bit.
GroupTraffic with_caps(const JointGraph& joint, GroupTraffic traffic,
                       std::span<const double> rates) {
  GroupTraffic capped;
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, ListHash> known;
  std::vector<std::uint64_t> key;
  for (GroupId group = 0; group < traffic.of_group.size(); ++group) {
    const auto its = rates.subspan(joint.first_shape[group], joint.shapes_of(group));
    key.assign(1, traffic.of_group[group]);
    for (const double rate : its) key.push_back(std::bit_cast<std::uint64_t>(rate));
    auto place = known.find(key);
    if (place == known.end()) {
      place = known.emplace(key, static_cast<std::uint32_t>(capped.calls.size())).first;
      capped.calls.push_back(traffic.of(group));
      for (GroupCall& made : capped.calls.back())
        for (ShapedPhase& phase : made.phases)
          for (ShapedFlow& flow : phase.flows)
            flow.rate_cap_bytes_per_s = std::min(flow.rate_cap_bytes_per_s, its[flow.shape]);
    }
    capped.of_group.push_back(place->second);
  }
  return capped;
}

}  // namespace

LinkUsers::LinkUsers(const JointGraph& joint)
    : begin_(joint.placed->parallel->lowest.size() + 1, 0), users_(joint.shape_loads.size()) {
  TY_CHECK(joint.shape_loads.size() < kNone, joint.shape_loads.size());
  for (const ShapeLoad& load : joint.shape_loads) ++begin_[load.link + std::size_t{1}];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  // Counting sort by link. Shapes are visited in order, so the users of a link are sorted by shape.
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape)
    for (const auto& [link, load] : joint.shape(shape)) users_[next[link]++] = {shape, load};
}

std::size_t footprint(const LinkUsers& users) { return users.size() * sizeof(LinkUsers::User); }

LinkLimits every_link_limits(const Joined& joined) {
  const std::size_t links = joined.graph->placed->parallel->lowest.size();
  LinkLimits limits{.users = std::make_shared<const LinkUsers>(*joined.graph),
                    .redundant = std::vector<bool>(links, false),
                    .implied_by = std::vector<LinkId>(links),
                    .concurrency = nullptr};
  std::iota(limits.implied_by.begin(), limits.implied_by.end(), LinkId{});
  limits.concurrency =
      std::make_shared<const Concurrency>(all_concurrent(*joined.graph, *limits.users));
  return limits;
}

LinkLimits limit_links(const Cluster& cluster, const Workload& workload, const Joined& joined,
                       const FoldCache& known) {
  Memo once{0};
  Memo& memo = known.memo != nullptr ? *known.memo : once;
  const JointGraph& joint = *joined.graph;
  LinkLimits limits;
  // Non-blocking links are found without the users, so the two run concurrently.
  limits.redundant = run_concurrently(
      is_large(cluster),
      [&] { limits.users = memo.get<LinkUsers>([&] { return LinkUsers(joint); }, joined.graph); },
      [&] {
        return non_blocking_links(
            cluster,
            *memo.get<TierTraffic>([&] { return tier_traffic(cluster, joint); }, joined.graph));
      });
  const auto series = memo.get<SeriesNeighbours>(
      [&] { return series_neighbours(cluster, joint, *limits.users); }, joined.graph);
  limits.implied_by = implied_links(cluster, *series, limits.redundant);
  for (const LinkId link : joint.links)
    if (limits.implied_by[link] != link) limits.redundant[link] = true;
  // The memo key of the concurrency is everything it reads: graph, moments, redundant links and
  // calls. It contains no rates.
  const Moments moments(joined.traffic);
  limits.concurrency = memo.get<Concurrency>(
      [&] {
        std::optional<ProgramAnalysis> found_here;
        const auto analysis = known.calls.analysis.lock();
        return find_concurrency(cluster, workload, joint,
                                analysis ? *analysis : found_here.emplace(workload), moments,
                                limits.redundant, *limits.users);
      },
      joined.graph, moments, limits.redundant, known.calls);
  return limits;
}

Contention find_contention(const Cluster& cluster, const Workload& workload, Joined joined,
                           const ContentionOptions& options) {
  LinkLimits limits = options.drop_uncontended
                          ? limit_links(cluster, workload, joined, options.known)
                          : every_link_limits(joined);
  if (options.drop_uncontended) {
    // Closed phases are priced last: their flows need the caps of their exclusive links.
    const std::vector<double> rates = exclusive_rates(cluster, *joined.graph, limits);
    joined.traffic = with_caps(*joined.graph, std::move(joined.traffic), rates);
    close_phases(cluster, *joined.graph, limits, joined.traffic);
  }
  return {std::move(joined.graph), std::move(joined.traffic), std::move(limits)};
}

}  // namespace trainyard
