// Which links limit which chains of a joint graph (joint_graph.hpp): the analysis of contention
// that folding, engines and reports share.
//
// A link is a constraint: the sum over the chains that use it of load times rate is at most its
// capacity. The analysis takes away constraints that say nothing, and says of the others who can
// meet there. Parallel links are one link already when it begins.
//   1. A non-blocking link can never fill, by what lies below it: it is redundant
//   (redundant_links.hpp).
//   2. Of links in series that all chains load alike the one with the least capacity implies the
//      others, which are redundant too (redundant_links.hpp).
//   3. On what is left, a use is exclusive where every other chain there belongs to a call that is
//      never concurrent with it (never_concurrent.hpp); other uses are *contended*. An exclusive
//      use is a cap on the chain's own rate and nothing else.
//   4. Chains that only meet others of their own phase end when the phase alone says: what they
//   take
//      from each other becomes a cap as well, and their uses are exclusive (closed_phases.hpp).
// So only contended uses join the fates of chains, and only they take part in refinement and in the
// solver. Steps 1 and 2 read capacities, step 3 the order of calls, and none of them durations.
//
//   const Contention found = find_contention(cluster, workload, communication, {});
//   for (const LinkUsers::User& user : found.limits.users.of(link))
//     if (user.contended) use(found.joint.loads[user.load]);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/contention/joint_graph.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The shapes of a joint graph by link.
class LinkUsers {
 public:
  struct User {
    std::uint32_t shape = 0;
    std::uint32_t load : 31 = 0;  // index into JointGraph::loads
    std::uint32_t contended : 1 = 0;
  };

  // None of them contended. REQUIRES: less than 2^31 distinct loads.
  explicit LinkUsers(const JointGraph& joint);

  // By shape, and so by group; of links that are in shapes.
  [[nodiscard]] std::span<const User> of(LinkId link) const {
    return std::span(users_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  [[nodiscard]] std::span<User> of(LinkId link) {
    return std::span(users_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  // REQUIRES: the shape uses the link.
  [[nodiscard]] User& at(LinkId link, std::uint32_t shape);
  // Link by link.
  [[nodiscard]] std::span<User> all() { return users_; }

 private:
  std::vector<std::uint32_t> begin_;  // by link of the cluster; and the end
  std::vector<User> users_;
};

struct LinkLimits {
  LinkUsers users;
  std::vector<bool> redundant;  // by link: it holds nothing back that others do not
  // By link: the one in series with it that is loaded alike and implies it, or itself.
  std::vector<LinkId> implied_by;
  // By shape, of its most loaded link in bytes/s: what its exclusive links allow; infinity: all.
  std::vector<double> rate_alone;
  std::vector<bool> meets;         // by shape: whether any of its uses is contended
  std::vector<bool> meets_others;  // by shape: whether by chains that are not of its own phase
};

// Steps 1 to 3. `analysis`: of the workload.
[[nodiscard]] LinkLimits limit_links(const Cluster& cluster, const Workload& workload,
                                     const JointGraph& joint, ProgramAnalysis& analysis);

// The limits where no link is redundant and every use is contended.
[[nodiscard]] LinkLimits every_link_limits(const JointGraph& joint);

// A joint graph whose chains have as caps what their exclusive links and their own phases allow.
struct Contention {
  JointGraph joint;
  LinkLimits limits;
};

struct ContentionOptions {
  bool drop_uncontended = false;        // false: every use counts as contended
  ProgramAnalysis* analysis = nullptr;  // of this workload, known from before; null: it is found
  AlikePlaces* places = nullptr;        // of this cluster, known from before; null: they are found
};

[[nodiscard]] Contention find_contention(const Cluster& cluster, const Workload& workload,
                                         const CommunicationModel& communication,
                                         const ContentionOptions& options);

}  // namespace trainyard
