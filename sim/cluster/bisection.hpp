// How much can flow from one half of a cluster to the other.
//
//   bisection_bandwidth(cluster);   // two DGX H100: 8 x 48 GB/s = 384 GB/s
#pragma once

#include "sim/cluster/cluster.hpp"

namespace trainyard {

// The least cut, in one direction, that parts the GPUs of the first half of the nodes (of the GPUs,
// where there is one node) from the others; by maximum flow over usable capacities. Zero for one
// GPU. Halves are taken in order, so units and pods stay together: a true bisection of a symmetric
// fabric.
[[nodiscard]] BytesPerSecond bisection_bandwidth(const Cluster& cluster);

}  // namespace trainyard
