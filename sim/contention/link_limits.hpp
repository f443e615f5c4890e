// Which links limit which flows of a joint graph (joint_graph.hpp): the analysis of contention
// that folding, engines and reports share.
//
// A link is a constraint: the sum over the flows that use it of load times rate is at most its
// capacity. The analysis takes away constraints that say nothing, and says of the others who can
// meet there. Parallel links are one link already when it begins.
//   1. A non-blocking link can never fill, by what lies below it: it is redundant
//   (redundant_links.hpp).
//   2. Of links in series that all flows load alike the one with the least capacity implies the
//      others, which are redundant too (redundant_links.hpp).
//   3. On what is left, a use is exclusive where every other flow there belongs to a call that is
//      never concurrent with it (never_concurrent.hpp); other uses are *contended*. An exclusive
//      use is a cap on the flow's own rate and nothing else.
//   4. Flows that only meet others of their own phase end when the phase alone says: what they
//   take
//      from each other becomes a cap as well, and their uses are exclusive (closed_phases.hpp).
// So only contended uses join the fates of flows, and only they take part in refinement and in the
// solver. Steps 1 and 2 read capacities, step 3 the order of calls, and none of them durations.
// Where the joint graph and the redundant links are those of other rates, so are the uses that are
// contended: a memo (FoldKnown) has them, and the caps alone are found anew.
//
//   const Contention found = find_contention(cluster, workload, communication, {});
//   for (const LinkUsers::User& user : found.limits.users->of(link)) ...;
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
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

  // By shape, and so by group; of links that are in shapes.
  [[nodiscard]] std::span<const User> of(LinkId link) const {
    return std::span(users_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  // The number of the first of them; the others follow.
  [[nodiscard]] std::uint32_t first(LinkId link) const { return begin_[link]; }
  [[nodiscard]] std::size_t size() const { return users_.size(); }

 private:
  std::vector<std::uint32_t> begin_;  // by link of the cluster; and the end
  std::vector<User> users_;           // link by link
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const LinkUsers& users);

struct LinkLimits {
  std::shared_ptr<const LinkUsers> users;
  std::vector<bool> redundant;  // by link: it holds nothing back that others do not
  // By link: the one in series with it that is loaded alike and implies it, or itself.
  std::vector<LinkId> implied_by;
  std::shared_ptr<const Concurrency> concurrency;  // which uses are contended
};

// Steps 1 to 3 and who is closed in step 4.
[[nodiscard]] LinkLimits limit_links(const Cluster& cluster, const Workload& workload,
                                     const Joined& joined, const FoldKnown& known = {});

// The limits where no link is redundant and every use is contended.
[[nodiscard]] LinkLimits every_link_limits(const Joined& joined);

// A joint graph, and traffic whose flows have as caps what their exclusive links and their own
// phases allow.
struct Contention {
  std::shared_ptr<const JointGraph> graph;
  GroupTraffic traffic;
  LinkLimits limits;
};

struct ContentionOptions {
  bool drop_uncontended = false;  // false: every use counts as contended
  FoldKnown known = {};
};

[[nodiscard]] Contention find_contention(const Cluster& cluster, const Workload& workload,
                                         const CommunicationModel& communication,
                                         const ContentionOptions& options);

}  // namespace trainyard
