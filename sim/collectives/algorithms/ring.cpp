// all_reduce, all_gather and reduce_scatter on rings, in one direction or in both.
//
// A reduce_scatter pass takes n-1 steps. In each step every member sends one n-th of the buffer to
// the next member, which adds it to its own. An all_gather pass takes n-1 steps in which the
// finished n-ths travel around the ring. Each link of the ring carries (n-1)/n of the buffer per
// pass:
//
//    T(pass) = (n-1) * (alpha + S/(nB)),  T(all_reduce) = 2 T(pass)
//
// S bytes, B bytes/s of a link, alpha seconds per step (Patarasuk and Yuan 2009). n = 8, S = 2^30,
// B = 100 GB/s, alpha = 5 us: 9 430.240960 us per pass (tests/sim/collectives/ring_test.cpp).
//
// "bidirectional_ring" sends half of the buffer in each direction. It is for wires between
// neighbours, of which a ring in one direction uses only half.
//
//    T = 2(n-1)(alpha + S/(2nB))         B of one wire, full rate in each direction
//    T = 2(n-1)(alpha + S/(nB))          B of a port that both directions share: the ring's time
//
// The same n, S, B and alpha: 9 465.240960 us on a ring of wires, 18 860.481920 us on a switch
// (tests/sim/collectives/new_algorithms_test.cpp).
#include "sim/collectives/algorithms/ring.hpp"

#include <algorithm>
#include <numeric>

#include "sim/collectives/messages.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

using GroupRanks = std::vector<std::uint32_t>;

// True if every pair of these members is joined by a direct wire.
bool is_full_mesh(const PlacedGroup& placed, const GroupRanks& group_ranks) {
  const auto wired = [&](std::uint32_t from, std::uint32_t to) {
    const Route route = placed.cluster.router().route(placed.gpus[from], placed.gpus[to]);
    return route.size() == 1;
  };
  for (const std::uint32_t from : group_ranks)
    for (const std::uint32_t to : group_ranks)
      if (from != to && !wired(from, to)) return false;
  return group_ranks.size() > 2;
}

// The zigzag path 0, 1, -1, 2, -2, ... through all of Z_modulus, with `turn` added to each element.
Ring zigzag(std::uint32_t modulus, std::uint32_t turn) {
  Ring path;
  path.reserve(modulus + 2);
  for (std::uint32_t i = 0; i < modulus; ++i) {
    const std::uint32_t step = (i + 1) / 2;
    path.push_back((turn + (i % 2 == 1 ? step : modulus - step)) % modulus);
  }
  return path;
}

// All cycles over four members, in both directions. Each of the twelve wires of their mesh carries
// two of the six cycles, so that none stays unused.
std::vector<Ring> cycles_of_four() {
  std::vector<Ring> cycles{{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2}};
  for (std::size_t i = 0; i < 3; ++i) cycles.emplace_back(cycles[i].rbegin(), cycles[i].rend());
  return cycles;
}

// The cycles in which the members of one node are visited, as indices among them. Over several
// nodes the NICs bound the rate, and cycles that share no wire are enough.
std::vector<Ring> local_cycles(const PlacedGroup& placed, const Placement& placement) {
  const auto mesh = [&](const GroupRanks& group_ranks) {
    return is_full_mesh(placed, group_ranks);
  };
  const auto count = static_cast<std::uint32_t>(placement.nodes.front().size());
  if (placement.even() && std::all_of(placement.nodes.begin(), placement.nodes.end(), mesh)) {
    const bool alone = placement.nodes.size() == 1;
    return alone && count == 4 ? cycles_of_four() : disjoint_cycles(count);
  }
  Ring natural(placement.largest());
  std::iota(natural.begin(), natural.end(), 0U);
  return {natural};
}

// Appends the members of one node in the order of the cycle, starting at member `first`. Indices of
// the cycle that this node does not have are skipped.
void append_node(Ring& ring, const GroupRanks& group_ranks, const Ring& cycle,
                 std::uint32_t first) {
  const auto start = std::find(cycle.begin(), cycle.end(), first) - cycle.begin();
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::uint32_t member = cycle[(static_cast<std::size_t>(start) + i) % cycle.size()];
    if (member < group_ranks.size()) ring.push_back(group_ranks[member]);
  }
}

}  // namespace

std::vector<Ring> disjoint_cycles(std::uint32_t n) {
  if (n <= 2) {
    Ring only(n);
    std::iota(only.begin(), only.end(), 0U);
    return {only};
  }
  // Walecki's construction. For odd n, the zigzag paths of Z_{n-1}, with 0, 1, ... added, are each
  // closed through one additional vertex; they use every edge once. For even n, a second additional
  // vertex is inserted in the middle of each path. The middle edges that it replaces are all
  // different; they form the perfect matching that stays unused.
  const std::uint32_t modulus = n % 2 == 1 ? n - 1 : n - 2;
  std::vector<Ring> cycles;
  cycles.reserve(modulus);
  for (std::uint32_t turn = 0; turn < modulus / 2; ++turn) {
    Ring cycle = zigzag(modulus, turn);
    if (n % 2 == 0) cycle.insert(cycle.begin() + modulus / 2, n - 1);
    cycle.push_back(modulus);
    cycles.push_back(cycle);
    std::reverse(cycle.begin(), cycle.end());
    cycles.push_back(std::move(cycle));
  }
  return cycles;
}

namespace {

enum class Direction : std::uint8_t { Forth, Back };

// Both directions enter nodes on the same rails, so neither uses a NIC that replaces a dead one.
std::vector<Ring> rings_in(const PlacedGroup& placed, Direction direction) {
  Placement placement = placement_of(placed);
  std::vector<Ring> cycles = local_cycles(placed, placement);
  const auto entries =
      placement.nodes.size() == 1 ? std::vector<std::uint32_t>{0} : rails_of(placed, placement);
  if (direction == Direction::Back) {
    std::ranges::reverse(placement.nodes);
    for (Ring& cycle : cycles) std::ranges::reverse(cycle);
  }
  std::vector<Ring> rings;
  rings.reserve(entries.size() * cycles.size());
  for (const std::uint32_t entry : entries) {
    for (const Ring& cycle : cycles) {
      Ring ring;
      ring.reserve(placed.gpus.size());
      for (const GroupRanks& group_ranks : placement.nodes)
        append_node(ring, group_ranks, cycle, entry);
      rings.push_back(std::move(ring));
    }
  }
  return rings;
}

}  // namespace

std::vector<Ring> rings_of(const PlacedGroup& placed) { return rings_in(placed, Direction::Forth); }

std::vector<MultiLinkFlow> ring_flows(const PlacedGroup& placed, std::span<const Ring> rings,
                                      double bytes, std::uint32_t passes, LoadSum& loads) {
  std::vector<MultiLinkFlow> flows;
  flows.reserve(rings.size());
  for (const Ring& ring : rings) {
    const auto n = static_cast<double>(ring.size());
    const double share = bytes / static_cast<double>(rings.size());
    const double hop_bytes = passes * share * (n - 1.0) / n;
    for (std::size_t i = 0; i < ring.size(); ++i)
      loads.add(hop_route(placed, ring[i], ring[(i + 1) % ring.size()]), hop_bytes);
    loads.take_into(flows);
  }
  return flows;
}

namespace {

// The slowest hop within a node and the slowest one between nodes, and the number of steps of a
// pass that each takes.
struct StepLatencies {
  Seconds inside;
  Seconds across;
  double steps_inside = 0.0;
  double steps_across = 0.0;

  [[nodiscard]] Seconds pass() const { return steps_inside * inside + steps_across * across; }
};

StepLatencies step_latencies(const PlacedGroup& placed, std::span<const Ring> rings) {
  StepLatencies steps;
  for (const Ring& ring : rings) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::uint32_t to = ring[(i + 1) % ring.size()];
      Seconds& slowest = crosses_nodes(placed, ring[i], to) ? steps.across : steps.inside;
      slowest = std::max(slowest, hop_latency(placed, ring[i], to));
    }
  }
  steps.steps_across = static_cast<double>(placement_of(placed).nodes.size() - 1);
  steps.steps_inside = static_cast<double>(placed.gpus.size() - 1) - steps.steps_across;
  return steps;
}

// Latency of `passes` passes of n ranks on N nodes. Of the n-1 steps of a pass, N-1 cross the
// network (NCCL's tuning model, ncclTopoTuneModel: (nsteps - ni) * intra + ni * inter). Each step
// has the latency of the slowest hop of its kind (hop_latency: each switch beyond the first one
// adds to it).
Seconds ring_latency(const PlacedGroup& placed, std::span<const Ring> rings, std::uint32_t passes) {
  return passes * step_latencies(placed, rings).pass();
}

}  // namespace

bool even_hops(const PlacedGroup& placed, std::span<const Ring> rings) {
  const StepLatencies slowest = step_latencies(placed, rings);
  for (const Ring& ring : rings) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::uint32_t to = ring[(i + 1) % ring.size()];
      const bool across = crosses_nodes(placed, ring[i], to);
      if (hop_latency(placed, ring[i], to) < (across ? slowest.across : slowest.inside))
        return false;
    }
  }
  return true;
}

namespace {

// The bound between messages and phases. They agree if all hops are of one kind. On nodes with
// several ranks each, a step of messages waits for the slowest hop, but NCCL's model counts only
// N-1 such steps.
FluidBound ring_bound(const PlacedGroup& placed) {
  const StepLatencies steps = step_latencies(placed, rings_of(placed));
  const double pass_s = steps.pass().value();
  FluidBound bound;
  if (steps.steps_inside <= 0.0 || steps.steps_across <= 0.0 || pass_s <= 0.0) return bound;
  const double slowest_s = std::max(steps.inside, steps.across).value();
  bound.relative += (steps.steps_inside + steps.steps_across) * slowest_s / pass_s - 1.0;
  bound.reason =
      "a step of messages waits for the slowest hop, the fluid form counts nodes - 1 steps across "
      "the network a pass, as NCCL's tuning model does";
  return bound;
}

// The part of a pass on one ring: the pieces that belong to the member at each position, and the
// first step and the channel of the pass.
struct RingPass {
  const Ring& ring;
  std::vector<PieceRange> blocks = {};  // by position in the ring
  std::uint32_t first_step = 0;
  std::uint32_t channel = 0;
};

// Appends n-1 steps. When reducing, the member at position i sends block i-1-s in step s, so block
// b starts at position b+1 and arrives at its owner b with the sum over all members. When
// gathering, it sends block i-s, until all members hold every block.
void add_pass(MessageList& list, const RingPass& pass, bool reduce) {
  const auto n = static_cast<std::uint32_t>(pass.ring.size());
  const std::uint32_t first = reduce ? n - 1 : n;  // offset of the block sent first
  for (std::uint32_t step = 0; step + 1 < n; ++step) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const PieceRange block = pass.blocks[(i + first + n - step) % n];
      list.send({.from = pass.ring[i],
                 .to = pass.ring[(i + 1) % n],
                 .step = pass.first_step + step,
                 .channel = pass.channel,
                 .reduce = reduce,
                 .piece_begin = block.begin,
                 .piece_end = block.end});
    }
  }
}

// The passes that a collective makes over the rings of a group.
struct RingPasses {
  bool reduce_scatter = false;
  bool all_gather = false;
};

std::uint32_t ring_pieces(const PlacedGroup& placed) {
  return static_cast<std::uint32_t>(placed.gpus.size() * rings_of(placed).size());
}

// True if a rotation of all group ranks by `turn` maps every ring to itself, moved by `turn`
// positions.
bool is_rotation_invariant(std::span<const Ring> rings, std::uint32_t turn) {
  return std::ranges::all_of(rings, [&](const Ring& ring) {
    const std::size_t n = ring.size();
    for (std::size_t i = 0; i < n; ++i)
      if (ring[(i + turn) % n] != (ring[i] + turn) % n) return false;
    return n % turn == 0;
  });
}

// Appends the messages that the member at a position of one of `channels` rings sends and receives
// in a pass. Each step sends the block received in the step before; the first step sends the block
// received in the last step of the pass before.
void add_turned_pass(const RingPass& pass, std::uint32_t channels, std::size_t position,
                     bool reduce, std::vector<Message>& messages) {
  const std::size_t n = pass.ring.size();
  const std::size_t first = reduce ? n - 1 : n;  // offset of the block sent first
  for (std::uint32_t step = 0; step + 1 < n; ++step) {
    const auto add = [&](std::size_t from, std::size_t to) {
      const std::uint32_t owner = pass.ring[(from + first + n - step) % n];
      messages.push_back({.from = pass.ring[from],
                          .to = pass.ring[to],
                          .step = pass.first_step + step,
                          .channel = pass.channel,
                          .reduce = reduce,
                          .piece_begin = owner * channels + pass.channel,
                          .piece_end = owner * channels + pass.channel + 1});
    };
    // The list alternates between a send and the receive of the same step. Its last entry is
    // therefore the receive of the step before, whose block this step sends on.
    const bool follows = !messages.empty() && messages.back().channel == pass.channel;
    const auto came = static_cast<std::uint32_t>(messages.size() - 1);
    add(position, (position + 1) % n);
    if (follows) messages.back().after = {came};
    add((position + n - 1) % n, position);
  }
}

// The messages of the first member (if the rings follow the group ranks) or of the members of the
// first node, if a rotation by that many group ranks maps every ring to itself. Otherwise empty.
// Pieces are numbered owner by owner, so a rotation of the owners by d adds d/n of all pieces, as
// RotatedMessages requires.
RotatedMessages turned_ring_messages(const PlacedGroup& placed, Bytes bytes, RingPasses passes) {
  const std::vector<Ring> rings = rings_of(placed);
  const std::uint32_t ranks = ranks_of(placed);
  const auto channels = static_cast<std::uint32_t>(rings.size());
  const auto of_node = static_cast<std::uint32_t>(placement_of(placed).nodes.front().size());
  RotatedMessages turned;
  if (is_rotation_invariant(rings, 1)) {
    turned.of_group_rank.resize(1);
  } else if (is_rotation_invariant(rings, of_node)) {
    turned.of_group_rank.resize(of_node);
  }
  for (std::uint32_t group_rank = 0; group_rank < turned.turn(); ++group_rank) {
    std::vector<Message>& messages = turned.of_group_rank[group_rank];
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      RingPass pass{.ring = rings[channel], .channel = channel};
      const auto position =
          static_cast<std::size_t>(std::ranges::find(pass.ring, group_rank) - pass.ring.begin());
      if (passes.reduce_scatter) add_turned_pass(pass, channels, position, true, messages);
      pass.first_step = passes.reduce_scatter ? ranks - 1 : 0;
      if (passes.all_gather) add_turned_pass(pass, channels, position, false, messages);
    }
    for (Message& message : messages) message.bytes = bytes.value() / (ranks * channels);
  }
  return turned;
}

std::vector<Message> messages_on(std::span<const Ring> rings, Bytes bytes, RingPasses passes) {
  const auto ranks = static_cast<std::uint32_t>(rings.front().size());
  const auto channels = static_cast<std::uint32_t>(rings.size());
  const std::uint32_t pieces = ranks * channels;
  MessageList list({.ranks = ranks, .pieces = pieces, .piece_bytes = bytes.value() / pieces});
  for (std::uint32_t channel = 0; channel < channels; ++channel) {
    RingPass pass{.ring = rings[channel], .channel = channel};
    for (const std::uint32_t group_rank : pass.ring)
      pass.blocks.push_back({group_rank * channels + channel, group_rank * channels + channel + 1});
    if (passes.reduce_scatter) add_pass(list, pass, true);
    pass.first_step = passes.reduce_scatter ? ranks - 1 : 0;
    if (passes.all_gather) add_pass(list, pass, false);
  }
  return std::move(list).take();
}

std::vector<Phase> phases_on(const PlacedGroup& placed, std::span<const Ring> rings, Bytes bytes,
                             RingPasses passes) {
  const std::uint32_t count = (passes.reduce_scatter ? 1U : 0U) + (passes.all_gather ? 1U : 0U);
  LoadSum loads(placed.cluster);
  std::vector<Phase> phases(1);
  phases.front() = {
      .latency = placed.cluster.facts().latency.launch + ring_latency(placed, rings, count),
      .flows = ring_flows(placed, rings, bytes.value(), count, loads)};
  return phases;
}

class RingCollective final : public CollectiveAlgorithm {
 public:
  explicit RingCollective(CollectiveOp op)
      : op_(op),
        passes_{.reduce_scatter = op != CollectiveOp::AllGather,
                .all_gather = op != CollectiveOp::ReduceScatter} {}
  std::string_view name() const override { return "ring"; }
  CollectiveOp op() const override { return op_; }
  bool is_plain() const override { return true; }
  std::string_view summary() const override {
    if (op_ == CollectiveOp::AllGather) return "every member's part goes round a ring";
    if (op_ == CollectiveOp::ReduceScatter) return "sums go round a ring and end at their owners";
    return "reduces and gathers in two passes around rings; least bytes per link";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override { return ring_pieces(placed); }
  std::optional<std::string> refusal(const PlacedGroup& /*placed*/) const override { return {}; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override { return ring_bound(placed); }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_on(placed, rings_of(placed), bytes, passes_);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return messages_on(rings_of(placed), bytes, passes_);
  }
  RotatedMessages rotated_messages(const PlacedGroup& placed, Bytes bytes) const override {
    return turned_ring_messages(placed, bytes, passes_);
  }

 private:
  CollectiveOp op_;
  RingPasses passes_;
};

constexpr RingPasses kBothPasses{.reduce_scatter = true, .all_gather = true};

// Every ring of the group, in both directions.
std::vector<Ring> both_ways(const PlacedGroup& placed) {
  std::vector<Ring> rings = rings_of(placed);
  for (Ring& ring : rings_in(placed, Direction::Back)) rings.push_back(std::move(ring));
  return rings;
}

class BidirectionalRing final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "bidirectional_ring"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "rings with half of the buffer each way round";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override { return 2 * ring_pieces(placed); }
  std::optional<std::string> refusal(const PlacedGroup& /*placed*/) const override { return {}; }
  FluidBound fluid_bound(const PlacedGroup& placed) const override {
    FluidBound bound = ring_bound(placed);
    if (even_hops(placed, rings_of(placed))) return bound;
    constexpr double kMissed = 0.2;
    bound.relative += kMissed;
    bound.reason =
        "where hops differ in latency the two ways' messages miss each other on a shared port and "
        "each has it whole for a time";
    return bound;
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_on(placed, both_ways(placed), bytes, kBothPasses);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return messages_on(both_ways(placed), bytes, kBothPasses);
  }
};

}  // namespace

const CollectiveAlgorithm& ring_all_reduce() {
  static const RingCollective algorithm(CollectiveOp::AllReduce);
  return algorithm;
}

const CollectiveAlgorithm& ring_all_gather() {
  static const RingCollective algorithm(CollectiveOp::AllGather);
  return algorithm;
}

const CollectiveAlgorithm& ring_reduce_scatter() {
  static const RingCollective algorithm(CollectiveOp::ReduceScatter);
  return algorithm;
}

const CollectiveAlgorithm& bidirectional_ring_all_reduce() {
  static const BidirectionalRing algorithm;
  return algorithm;
}

}  // namespace trainyard
