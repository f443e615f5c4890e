// Which kinds of nodes the ranks fill first, on a cluster of several kinds. With pipeline stages
// outermost this says which machines serve which stage.
//
//    const std::vector<std::string> kinds = node_kinds(cluster);   // {"dgx_h100", "dgx_a100_80gb"}
//    placement_by_nodes(cluster, {{kinds[1], kinds[0]}});          // {8, ..., 15, 0, ..., 7}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace trainyard {

// The names of the kinds of nodes, in the order of the first node of each.
[[nodiscard]] std::vector<std::string> node_kinds(const ClusterSpec& cluster);

// The GPU of every rank when ranks fill the nodes of the first kind, then those of the next, nodes
// of one kind in their own order. Empty where that is the order of the nodes.
// REQUIRES: `order` has each name of node_kinds(cluster) once.
[[nodiscard]] std::vector<std::int64_t> placement_by_nodes(const ClusterSpec& cluster,
                                                           std::span<const std::string> order);

}  // namespace trainyard
