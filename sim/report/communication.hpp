// The communication of a run: the calls that groups made, how much the links carried, and how the
// groups lie on the cluster.
//
//   for (const CollectiveSummary& row : collective_summary(view)) row.busbw_bytes_per_s;
//   for (const LinkSummary& row : link_summary(view)) row.peak_utilisation;
//   for (const GroupSpan& row : placement_summary(view)) row.nodes_most;   // a tensor group: 1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The calls of one kind of group, operation, selected algorithm and group size. Calls of several
// sizes share a row where the same was chosen for them.
//
//   busbw = factor(op, n) * bytes / time,   2(n-1)/n for all_reduce, (n-1)/n for all_gather,
//   reduce_scatter and all_to_all, else 1   (nccl-tests, doc/PERFORMANCE.md).
// Worked: 2^30 bytes in 5 ms among 8: all_reduce 375.8 GB/s, all_gather 187.9 GB/s.
struct CollectiveSummary {
  GroupKind group = GroupKind::Other;
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string requested;                 // the algorithm that was asked for: "nccl"
  SelectedAlgorithm selected_algorithm;  // what carried it: Ring, LL128, 24 channels
  std::uint64_t ranks = 0;               // of one group
  std::uint64_t count = 0;               // calls in the step, of all groups
  double bytes = 0.0;                    // nccl-tests sizes of all calls, summed
  double time_s = 0.0;                   // of all calls, from the moment the last member came
  double busbw_bytes_per_s = 0.0;        // factor * bytes / time_s; 0 when they took no time
  [[nodiscard]] double mean_time_s() const {
    return count == 0 ? 0.0 : time_s / static_cast<double>(count);
  }
};

// Sorted by kind of group, operation, label of the selected algorithm, size of group.
[[nodiscard]] std::vector<CollectiveSummary> collective_summary(const RunView& view);

// The links of one kind and capacity, so that a cluster of thousands reads as a few rows.
struct LinkSummary {
  LinkKind kind = LinkKind::NvLink;
  std::uint64_t links = 0;            // that carried anything
  double capacity_bytes_per_s = 0.0;  // of one link, one direction
  double bytes = 0.0;                 // of all of them together
  double busiest_bytes = 0.0;         // of the link that carried most
  double busy_fraction = 0.0;         // of the step, mean over the links
  double busiest_fraction = 0.0;      // the same of the busiest link
  double mean_utilisation = 0.0;      // bytes / (capacity * step), mean over the links
  double peak_utilisation = 0.0;      // largest share of a link's capacity in use at an instant
};

// Sorted by kind, then by capacity.
[[nodiscard]] std::vector<LinkSummary> link_summary(const RunView& view);

// The groups of one kind and size: the servers that they touch and the switches between their
// ranks.
struct GroupSpan {
  GroupKind kind = GroupKind::Other;
  std::uint32_t ranks = 0;        // of one group
  std::uint64_t groups = 0;       // of that kind and size
  std::uint32_t nodes_least = 0;  // servers that one group touches
  std::uint32_t nodes_most = 0;
  std::uint32_t per_node_most = 0;  // members of one group on one server
  // Switches of the fabric between one member and the next, round the group (last to first), on the
  // longest of its messages: 0 within a server, 1 under one leaf, 3 over a spine, 5 over a core.
  std::uint32_t switches_most = 0;
  std::uint64_t crossings = 0;  // of all neighbours in all those groups, those on two servers
  std::uint64_t neighbours = 0;
};

// Sorted by kind, then by size; groups that no operation uses are counted as well. On a cluster of
// several planes a message is taken to leave through its GPU's own NIC.
[[nodiscard]] std::vector<GroupSpan> placement_summary(const RunView& view);

}  // namespace trainyard
