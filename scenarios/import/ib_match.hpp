// Finds the fabric of topologies/ that has exactly the switches and cables of an InfiniBand fabric.
#pragma once

#include <optional>

#include "scenarios/import/ib_layout.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Returns the cluster with that fabric; nothing where none equals it. `node` is the node type of
// the layout's nodes, with their number of NICs. May order the nodes of the layout anew.
//
// It derives parameters from the counts of the layout (radix, oversubscription, nodes of a unit),
// draws each candidate and compares: a NIC keeps its number, switches may be numbered differently.
// The comparison is colour refinement (Weisfeiler and Leman 1968), which is exact for one and two
// tiers, because NICs with numbers tell all leaves apart.
[[nodiscard]] std::optional<ClusterSpec> matching_cluster(const IbFabric& fabric,
                                                          const NodeSpec& node, IbLayout& layout);

}  // namespace trainyard
