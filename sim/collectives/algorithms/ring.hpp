// Rings: how a group is laid in rings on a real cluster, and the two passes every ring algorithm is
// made of.
//
// A reduce_scatter pass takes n-1 steps; in each, every member sends one n-th of the buffer to the
// next one, which adds it to its own. An all_gather pass takes n-1 steps in which finished n-ths go
// round. So each link of the ring carries (n-1)/n of the buffer per pass:
//
//   T(pass) = (n-1) * (alpha + S/(nB)),  T(all_reduce) = 2 T(pass)
//
// S bytes, B bytes/s of a link, alpha seconds per step (Patarasuk and Yuan 2009). n = 8, S = 2^30,
// B = 100 GB/s, alpha = 5 us: 9 430.240960 us per pass (tests/sim/collectives/ring_test.cpp).
//
//   for (const Ring& ring : rings_of(place)) add_reduce_scatter(list, ring, ...);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/message_list.hpp"

namespace trainyard {

// Roles in the order in which data visits them; the last sends to the first.
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

// One chain per ring that carries bytes_per_pass * passes * (n-1)/n over every hop, divided among
// rings.
[[nodiscard]] std::vector<Chain> ring_chains(const GroupPlace& place, std::span<const Ring> rings,
                                             double bytes, std::uint32_t passes, LoadSum& loads);

// Latency of `passes` passes of n ranks on N nodes: of the n-1 steps of a pass N-1 cross the
// network (NCCL's tuning model, ncclTopoTuneModel: (nsteps - ni) * intra + ni * inter), each at the
// latency of the slowest hop of its kind (hop_latency: switches beyond the first cost more).
[[nodiscard]] Seconds ring_latency(const GroupPlace& place, std::span<const Ring> rings,
                                   std::uint32_t passes);

// How far messages lie from ring_phases: not at all where all hops are of one kind; over nodes with
// several ranks each a step waits for the slowest hop, which NCCL's model counts N-1 times only.
[[nodiscard]] FluidBound ring_bound(const GroupPlace& place);
// Do all hops of one kind (within nodes, between nodes) take one latency?
[[nodiscard]] bool even_hops(const GroupPlace& place, std::span<const Ring> rings);

// One ring's part of a pass: which pieces belong to the member at each position, and where in the
// order of steps and channels the pass lies.
struct RingPass {
  const Ring& ring;
  std::vector<PieceRange> blocks;  // by position in the ring
  std::uint32_t first_step = 0;
  std::uint32_t channel = 0;
};
// Afterwards the member at position i holds block i, reduced over all. n-1 steps.
void add_reduce_scatter(MessageList& list, const RingPass& pass);
// Afterwards all hold every block that the member at its position held. n-1 steps.
void add_all_gather(MessageList& list, const RingPass& pass);

// The messages of a collective made of passes over the rings of a group.
struct RingPasses {
  bool reduce_scatter = false;
  bool all_gather = false;
};
[[nodiscard]] std::vector<Message> ring_messages(const GroupPlace& place, Bytes bytes,
                                                 RingPasses passes);
// What the first member of all (one ring by the roles), or those of the first node do of them,
// where turning the group by so many roles leaves every ring as it is.
[[nodiscard]] TurnedMessages turned_ring_messages(const GroupPlace& place, Bytes bytes,
                                                  RingPasses passes);
// Its one phase.
[[nodiscard]] std::vector<Phase> ring_phases(const GroupPlace& place, Bytes bytes,
                                             RingPasses passes);
[[nodiscard]] std::uint32_t ring_pieces(const GroupPlace& place);

// The same over given rings instead of rings_of(place); each carries an equal share.
[[nodiscard]] std::vector<Message> messages_on(std::span<const Ring> rings, Bytes bytes,
                                               RingPasses passes);
[[nodiscard]] std::vector<Phase> phases_on(const GroupPlace& place, std::span<const Ring> rings,
                                           Bytes bytes, RingPasses passes);

}  // namespace trainyard
