// Which flows can meet on a link, because no rank keeps their calls from being concurrent.
//
// A rank that is a member of two groups makes their calls one after the other, by the order of its
// streams and dependencies (program_analysis.hpp). An operation ends for all members at once, so
// calls that one member has in order are never concurrent for anybody.
//
//   const Moments moments(traffic);
//   Concurrency found = find_concurrency(cluster, workload, joint, analysis, moments, redundant,
//   users); found.contended[users.first(link)];   // whether the first user of the link may meet
//   others
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// When the flows of each shape move: in which phases of which calls. It is all that concurrency
// reads of traffic.
struct Moments {
  explicit Moments(const GroupTraffic& traffic);
  bool operator==(const Moments&) const = default;

  // When the flows of a shape move.
  struct OfShape {
    std::vector<std::uint64_t> all = {};  // calls and phases, ascending
    bool together = false;                // two of them at once
    bool operator==(const OfShape&) const = default;
  };
  std::vector<std::vector<OfShape>> of_traffic;  // by index into GroupTraffic::calls, by shape
  std::vector<bool> few_flows;                   // by that index: in every phase
  std::vector<std::uint32_t> of_group;           // as GroupTraffic::of_group
};

// Which uses of links are contended.
struct Concurrency {
  std::vector<std::uint8_t> contended;  // by number of a user (LinkUsers), 0 or 1
  // By group: its flows meet nobody but others of their own phase, and few of them. None of their
  // uses is contended: closed_phases.hpp says what they take from each other.
  std::vector<bool> closed;
  std::vector<std::uint32_t> links = {};  // positions in JointGraph::links where uses are contended
};
// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Concurrency& concurrency);

// Looks at the links that are not `redundant` (by link).
[[nodiscard]] Concurrency find_concurrency(const Cluster& cluster, const Workload& workload,
                                           const JointGraph& joint, ProgramAnalysis& analysis,
                                           const Moments& moments,
                                           const std::vector<bool>& redundant,
                                           const LinkUsers& users);

// Where every use is contended.
[[nodiscard]] Concurrency all_concurrent(const JointGraph& joint, const LinkUsers& users);

}  // namespace trainyard
