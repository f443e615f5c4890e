// Rings of a group on a cluster: the order of the ranks, and the load of a ring on links.
//
//    for (const Ring& ring : rings_of(placed)) use(ring);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard {

// Group ranks in the order in which data visits them; the last one sends to the first one.
using Ring = std::vector<std::uint32_t>;

// The rings of a group; each carries an equal share of the bytes.
// - One rank per node, or one node with a switch: one ring.
// - A full mesh within the node: n-2 rings (n even) or n-1 (n odd) that share no link (Walecki's
//   construction; for even n one link of each GPU stays unused). Four ranks on one node have six
//   rings, two on each link, as NCCL has.
// - g ranks on each of several nodes: g rings (rails_of). Ring c enters each node at member c,
//   visits all members and leaves on the rail of member c of the next node: each NIC carries 1/g of
//   the bytes.
[[nodiscard]] std::vector<Ring> rings_of(const PlacedGroup& placed);

// Directed cycles over 0..n-1 that share no directed edge: n-1 of them for odd n, n-2 for even n >
// 2.
[[nodiscard]] std::vector<Ring> disjoint_cycles(std::uint32_t n);

// One flow per ring. The rings share the bytes equally; a ring carries (n-1)/n of its share over
// every hop in each of `passes` passes.
[[nodiscard]] std::vector<MultiLinkFlow> ring_flows(const PlacedGroup& placed,
                                                    std::span<const Ring> rings, double bytes,
                                                    std::uint32_t passes, LoadSum& loads);

// True if all hops within nodes have the same latency, and all hops between nodes have the same
// latency.
[[nodiscard]] bool even_hops(const PlacedGroup& placed, std::span<const Ring> rings);

}  // namespace trainyard
