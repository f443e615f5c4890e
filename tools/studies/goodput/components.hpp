// How many parts of a kind a cluster has, and how many nodes the failure of one takes.
#pragma once

#include <cstdint>

#include "models/reliability/reliability.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// Cables are those of the fabric, from NICs to the uppermost switches.
[[nodiscard]] double component_count(const ClusterSpec& cluster, FailingComponent component,
                                     std::int64_t nodes_per_rack);

// The nodes with a port on one leaf, the nodes of a rack, otherwise one.
[[nodiscard]] std::int64_t nodes_of_component(const ClusterSpec& cluster,
                                              FailingComponent component,
                                              std::int64_t nodes_per_rack);

}  // namespace trainyard
