// Finds the flows that can be on a link at the same time: those whose calls no rank keeps in order.
//
// A rank that is a member of two groups makes their calls one after the other, where its streams
// and dependencies order them (program_analysis.hpp). An operation ends for all members at once.
// Calls that one member has in order are therefore never concurrent for any member.
//
//    const Moments moments(traffic);
//    Concurrency found =
//        find_concurrency(cluster, workload, joint, analysis, moments, redundant, users);
//    found.contended[users.first(link)];   // whether the first user of the link may be contended
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// When the flows of each shape move: in which phases of which calls. Concurrency reads nothing else
// of the traffic.
struct Moments {
  explicit Moments(const GroupTraffic& traffic);
  bool operator==(const Moments&) const = default;

  // When the flows of a shape move.
  struct OfShape {
    std::vector<std::uint64_t> all = {};  // call and phase, ascending
    bool together = false;                // two of its flows move in one phase
    bool operator==(const OfShape&) const = default;
  };
  std::vector<std::vector<OfShape>> of_traffic;  // [index into GroupTraffic::calls][shape]
  // By index into GroupTraffic::calls: every phase has few flows.
  std::vector<bool> few_flows;
  std::vector<std::uint32_t> of_group;  // equals GroupTraffic::of_group
};

// The contended uses of links.
struct Concurrency {
  std::vector<std::uint8_t> contended;  // by number of a user (LinkUsers), 0 or 1
  // By group: its flows share links only with others of their own phase, and are few. None of their
  // uses is contended: closed_phases.hpp computes the rates that they take from each other.
  std::vector<bool> closed;
  // Positions in JointGraph::links where uses are contended.
  std::vector<std::uint32_t> links = {};
};
// Estimates its size in bytes.
[[nodiscard]] std::size_t footprint(const Concurrency& concurrency);

// Looks at the links that are not `redundant` (by link).
[[nodiscard]] Concurrency find_concurrency(const Cluster& cluster, const Workload& workload,
                                           const JointGraph& joint, ProgramAnalysis& analysis,
                                           const Moments& moments,
                                           const std::vector<bool>& redundant,
                                           const LinkUsers& users);

// The concurrency where every use is contended.
[[nodiscard]] Concurrency all_concurrent(const JointGraph& joint, const LinkUsers& users);

}  // namespace trainyard
