// The contention analysis that folding, engines and reports share: it finds the links that limit
// each flow of a joint graph (joint_graph.hpp).
//
// A link is a constraint: the sum over the flows that use it of load times rate is at most its
// capacity. The analysis removes constraints that have no effect, and finds for the others which
// flows can be there at the same time. Parallel links are one link already when it begins.
//
// 1. A non-blocking link can never fill, because of the links below it: it is redundant
//    (redundant_links.hpp).
// 2. Of links in series that all flows load equally, the one with the least capacity implies the
//    others, which are redundant too (redundant_links.hpp).
// 3. On the links that are left, a use is exclusive where every other flow there belongs to a call
//    that is never concurrent with it (never_concurrent.hpp); other uses are *contended*. An
//    exclusive use is a cap on the flow's own rate and nothing else.
// 4. For flows that share links only with others of their own phase, the phase alone determines
//    when they end. The rate that they take from each other becomes a cap as well, and their uses
//    are exclusive (closed_phases.hpp).
//
// Only contended uses make the rate of a flow depend on other flows, so only they take part in
// colour refinement and in the solver. Steps 1 and 2 read capacities, step 3 reads the order of
// calls, and none of them reads durations. When rates change but the joint graph and the redundant
// links stay the same, the contended uses stay the same too: a memo (FoldCache) returns them, and
// only the caps are computed again.
//
//    Joined joined = join(cluster, workload, communication);
//    const Contention found = find_contention(cluster, workload, std::move(joined), {});
//    for (const LinkUsers::User& user : found.limits.users->of(link)) use(user.shape);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Concurrency;

// The shapes of a joint graph by link.
class LinkUsers {
 public:
  struct User {
    std::uint32_t shape = 0;
    std::uint32_t load = 0;  // index into JointGraph::loads
    bool operator==(const User&) const = default;
  };

  explicit LinkUsers(const JointGraph& joint);

  // The users of a link, in the order of shapes, and so of groups.
  [[nodiscard]] std::span<const User> of(LinkId link) const {
    return std::span(users_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  // The number of the link's first user; the others follow.
  [[nodiscard]] std::uint32_t first(LinkId link) const { return begin_[link]; }
  [[nodiscard]] std::size_t size() const { return users_.size(); }

 private:
  std::vector<std::uint32_t> begin_;  // by link of the cluster; the last entry is the end
  std::vector<User> users_;           // users of all links, link by link
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const LinkUsers& users);

struct LinkLimits {
  std::shared_ptr<const LinkUsers> users;
  std::vector<bool> redundant;  // by link: its constraint follows from those of others
  // By link: the link in series with it that is loaded equally and implies it, or itself.
  std::vector<LinkId> implied_by;
  std::shared_ptr<const Concurrency> concurrency;  // the contended uses
};

// Steps 1 to 3, and the closed groups of step 4.
[[nodiscard]] LinkLimits limit_links(const Cluster& cluster, const Workload& workload,
                                     const Joined& joined, const FoldCache& known = {});

// The limits where no link is redundant and every use is contended.
[[nodiscard]] LinkLimits every_link_limits(const Joined& joined);

// A joint graph, and its traffic. The rate caps of the traffic include the limits of exclusive
// links and of the flows' own phases.
struct Contention {
  std::shared_ptr<const JointGraph> graph;
  GroupTraffic traffic;
  LinkLimits limits;
};

struct ContentionOptions {
  bool drop_uncontended = false;  // false: every use counts as contended
  FoldCache known = {};
};

[[nodiscard]] Contention find_contention(const Cluster& cluster, const Workload& workload,
                                         Joined joined, const ContentionOptions& options);

}  // namespace trainyard
