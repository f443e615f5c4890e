// Which groups cross what: how the ranks that communicate lie on the cluster, by kind of group.
//
//   for (const GroupSpan& row : placement_summary(view)) row.nodes_most;   // a tensor group: 1
#pragma once

#include <cstdint>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

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

// By kind, then by size; groups that no operation uses are counted as well. On a cluster of several
// planes a message is taken to leave through its GPU's own NIC.
[[nodiscard]] std::vector<GroupSpan> placement_summary(const RunView& view);

}  // namespace trainyard
