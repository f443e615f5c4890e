// Summaries of the communication of a run: the calls of all groups, the traffic of all links, and
// the placement of groups on the cluster.
//
//    for (const CollectiveSummary& row : collective_summary(view)) row.busbw_bytes_per_s;
//    for (const LinkSummary& row : link_summary(view)) row.peak_utilisation;
//    for (const GroupSpan& row : placement_summary(view)) row.nodes_most;   // a tensor group: 1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The calls of one kind of group, operation, selected algorithm and group size. Calls of different
// sizes share an entry where the communication model selects the same algorithm for them.
//
//    busbw = factor(op, n) * bytes / time
//    factor: 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, all_to_all, else 1
// (nccl-tests, doc/PERFORMANCE.md). Worked: 2^30 bytes in 5 ms among 8: all_reduce 375.8 GB/s,
// all_gather 187.9 GB/s.
struct CollectiveSummary {
  GroupKind group = GroupKind::Other;
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string requested;                 // the algorithm that the workload requests: "nccl"
  SelectedAlgorithm selected_algorithm;  // the algorithm that runs: Ring, LL128, 24 channels
  std::uint64_t ranks = 0;               // of one group
  std::uint64_t count = 0;               // calls in the step, of all groups
  double bytes = 0.0;                    // sizes as nccl-tests define them, summed over all calls
  double time_s = 0.0;                   // of all calls, from the arrival of the last member
  double busbw_bytes_per_s = 0.0;        // factor * bytes / time_s; 0 when time_s is 0
  [[nodiscard]] double mean_bytes() const {
    return count == 0 ? 0.0 : bytes / static_cast<double>(count);
  }
  [[nodiscard]] double mean_time_s() const {
    return count == 0 ? 0.0 : time_s / static_cast<double>(count);
  }
};

// Returns the entries sorted by kind of group, operation, label of the selected algorithm, group
// size.
[[nodiscard]] std::vector<CollectiveSummary> collective_summary(const RunView& view);

// The links of one kind and capacity together, so that a cluster of thousands of links is a few
// entries.
struct LinkSummary {
  LinkKind kind = LinkKind::NvLink;
  std::uint64_t links = 0;            // that carry at least one flow
  double capacity_bytes_per_s = 0.0;  // of one link, one direction
  double bytes = 0.0;                 // of all these links together
  double busiest_bytes = 0.0;         // of the link that carries most
  // share of the step in which a link carries something, mean over the links
  double busy_fraction = 0.0;
  double busiest_fraction = 0.0;  // the same, of the busiest link
  double mean_utilisation = 0.0;  // bytes / (capacity * step), mean over the links
  double peak_utilisation = 0.0;  // largest share of a link's capacity in use at an instant
};

// Returns the entries sorted by kind, then by capacity.
[[nodiscard]] std::vector<LinkSummary> link_summary(const RunView& view);

// The placement of the groups of one kind and size: the servers that they touch and the switches
// between their ranks.
struct GroupSpan {
  GroupKind kind = GroupKind::Other;
  std::uint32_t ranks = 0;          // of one group
  std::uint64_t groups = 0;         // of this kind and size
  std::uint32_t nodes_least = 0;    // least number of servers that one group touches
  std::uint32_t nodes_most = 0;     // most servers that one group touches
  std::uint32_t per_node_most = 0;  // most members of one group on one server
  // The most fabric switches between a member and the next one in the ring (the last is followed by
  // the first): 0 within a server, 1 under one leaf, 3 over a spine, 5 over a core.
  std::uint32_t switches_most = 0;
  std::uint64_t crossings = 0;   // pairs of neighbours on two servers, in all these groups
  std::uint64_t neighbours = 0;  // pairs of neighbours in all these groups
};

// Whether any group of the kind has members on several servers.
[[nodiscard]] bool crosses_nodes(const RunView& view, GroupKind kind);

// Returns the entries sorted by kind, then by size. Groups that no operation uses are counted too.
// On a cluster of several planes the summary assumes that a message leaves through its GPU's own
// NIC.
[[nodiscard]] std::vector<GroupSpan> placement_summary(const RunView& view);

}  // namespace trainyard
