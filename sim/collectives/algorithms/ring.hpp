// Rings: how a group is laid in rings on a real cluster, and what a ring puts on its links.
//
//   for (const Ring& ring : rings_of(place)) use(ring);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard {

// Group ranks in the order in which data visits them; the last sends to the first.
using Ring = std::vector<std::uint32_t>;

// The rings of a group; each carries an equal share of the bytes.
//  - One rank per node, or one node with a switch: one ring.
//  - A full mesh within the node: n-2 rings (n even) or n-1 (n odd) that share no link (Walecki's
//    construction; for even n one link of each GPU stays unused).
//  - g ranks on each of several nodes: g rings (rails_of). Ring c enters each node at member c,
//    visits all and leaves on the rail of the next node's member c: each NIC carries 1/g of the
//    bytes.
[[nodiscard]] std::vector<Ring> rings_of(const GroupPlace& place);

// Directed cycles over 0..n-1 that share no directed edge: n-1 of them for odd n, n-2 for even n
// > 2.
[[nodiscard]] std::vector<Ring> disjoint_cycles(std::uint32_t n);

// One flow per ring that carries bytes_per_pass * passes * (n-1)/n over every hop, divided among
// rings.
[[nodiscard]] std::vector<MultiLinkFlow> ring_flows(const GroupPlace& place,
                                                    std::span<const Ring> rings, double bytes,
                                                    std::uint32_t passes, LoadSum& loads);

// Do all hops of one kind (within nodes, between nodes) take one latency?
[[nodiscard]] bool even_hops(const GroupPlace& place, std::span<const Ring> rings);

}  // namespace trainyard
