// Collectives level by level. Reduce_scatter runs within every node, then within every unit of
// nodes, and so on outwards, on smaller parts at each level. All_gather runs from the outermost
// level inwards.
//
//    T(all_reduce) = sum over levels of 2(k_l - 1)(a_l + S/(K_l B_l)),  K_l = k_0 k_1 ... k_l
//
// S bytes; k_l is the number of ranks in a line of level l, a_l and B_l are its step latency and
// rate. Reduce_scatter and all_gather take half of that. A level starts when the level before has
// ended. "hierarchical" has two levels, the nodes and the rails across them; "multi_level" has the
// levels of the fabric (levels.hpp). g = 8 ranks on each of N = 4 nodes, S = 2^30, 370.8 GB/s and 4
// us within, 48.5 GB/s and 14 us across: 9 358.615511 us
// (tests/sim/collectives/hierarchical_test.cpp).
//
// Along a dimension of a torus, half of the bytes travel around the line in each direction, so both
// directions of the wires are used (Jain and Sabharwal, "Optimal bucket algorithms for large MPI
// collectives on torus interconnects", ICS 2010; two-way rings per axis on TPUs):
//
//    T(all_reduce) = sum over dimensions of 2(k_d - 1)(a + S/(2 K_d B)),  B of a wire, one way
//
// 4 x 4 x 4 GPUs, S = 2^30, B = 50 GB/s, a = 3 us: 21 193.292160 us
// (tests/sim/collectives/levels_test.cpp).
#include <algorithm>
#include <numeric>

#include "sim/collectives/algorithms/ring.hpp"
#include "sim/collectives/levels.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

// The levels, and the cycles in which data travels along their lines. Every member of a line owns
// the pieces group rank * cycles + cycle. Cycle c of a node's disjoint cycles carries the pieces of
// cycle c. Along a dimension of a torus, odd cycles travel backwards.
struct Plan {
  Levels levels;
  std::vector<std::vector<Ring>> node_rings;  // [node][cycle], as digits of level 0
  std::uint32_t node_cycles = 1;              // disjoint cycles that every node has
  std::uint32_t cycles = 1;  // a multiple of node_cycles; even where there is a torus dimension

  [[nodiscard]] std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(levels.group_rank_at.size());
  }
  [[nodiscard]] std::uint32_t pieces() const { return ranks() * cycles; }
  // The digits of a line, in the order in which data visits them.
  [[nodiscard]] Ring order(std::size_t level, std::uint32_t position, std::uint32_t cycle) const;
};

Ring Plan::order(std::size_t level, std::uint32_t position, std::uint32_t cycle) const {
  if (levels.kinds[level] == LevelKind::Node)
    return node_rings[position / levels.sizes[0]][cycle % node_cycles];
  Ring natural(levels.sizes[level]);
  std::iota(natural.begin(), natural.end(), 0U);
  if (levels.kinds[level] == LevelKind::Dimension && cycle % 2 == 1) std::ranges::reverse(natural);
  return natural;
}

Plan plan_of(const PlacedGroup& placed, LevelsOf which) {
  Plan plan{.levels = levels_of(placed, which), .node_rings = {}};
  if (std::ranges::count(plan.levels.kinds, LevelKind::Dimension) > 0) plan.cycles = 2;
  if (!plan.levels.within_node()) return plan;
  std::size_t fewest = placed.gpus.size();
  for (std::uint32_t first = 0; first < plan.ranks(); first += plan.levels.sizes[0]) {
    std::vector<std::uint32_t> gpus;
    for (const std::uint32_t group_rank : plan.levels.line(0, first))
      gpus.push_back(placed.gpus[group_rank]);
    plan.node_rings.push_back(rings_of({.cluster = placed.cluster, .gpus = gpus}));
    fewest = std::min(fewest, plan.node_rings.back().size());
  }
  plan.node_cycles = static_cast<std::uint32_t>(fewest);
  // Both the cycles of a node and the two directions of a torus dimension must divide the pieces of
  // a member equally.
  plan.cycles = std::lcm(plan.cycles, plan.node_cycles);
  return plan;
}

// Calls visit(position) with the first position of every line of the level.
template <class Visit>
void for_each_line(const Levels& levels, std::size_t level, Visit visit) {
  for (std::uint32_t position = 0; position < levels.group_rank_at.size(); ++position)
    if (levels.digit(level, position) == 0) visit(position);
}

// The pieces of a cycle for which a member is responsible at this level, given by its position: its
// own pieces, and those of all ranks at outer levels that have the same digits up to this level.
std::vector<std::uint32_t> block(const Plan& plan, std::size_t level, std::uint32_t position,
                                 std::uint32_t cycle) {
  const std::uint32_t apart = plan.levels.stride(level) * plan.levels.sizes[level];
  std::vector<std::uint32_t> pieces;
  for (std::uint32_t at = position % apart; at < plan.ranks(); at += apart)
    pieces.push_back(plan.levels.group_rank_at[at] * plan.cycles + cycle);
  std::ranges::sort(pieces);
  return pieces;
}

void send_pieces(MessageList& list, Message message, const std::vector<std::uint32_t>& pieces) {
  const bool range = pieces.back() - pieces.front() + 1 == pieces.size();
  if (!range) message.scattered = pieces;
  message.piece_begin = pieces.front();
  message.piece_end = pieces.back() + 1;
  list.send(std::move(message));
}

// One pass of one cycle over a line. In step s the member at index i of the order sends block
// i-1-s, whose owner adds last (reduce), or block i-s, whose owner sends first (gather); see
// ring.cpp.
void add_line(MessageList& list, const Plan& plan, std::size_t level, std::uint32_t first,
              Message pattern) {
  const Ring order = plan.order(level, first, pattern.channel);
  const auto n = static_cast<std::uint32_t>(order.size());
  const std::uint32_t stride = plan.levels.stride(level);
  std::vector<std::vector<std::uint32_t>> blocks;
  for (const std::uint32_t digit : order)
    blocks.push_back(block(plan, level, first + digit * stride, pattern.channel));
  const std::uint32_t first_step = pattern.step;
  for (std::uint32_t step = 0; step + 1 < n; ++step) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t behind = pattern.reduce ? step + 1 : step;
      pattern.from = plan.levels.group_rank_at[first + order[i] * stride];
      pattern.to = plan.levels.group_rank_at[first + order[(i + 1) % n] * stride];
      pattern.step = first_step + step;
      send_pieces(list, pattern, blocks[(i + n - behind) % n]);
    }
  }
}

// Appends one pass over every line of a level; returns the number of the step after it.
std::uint32_t add_level(MessageList& list, const Plan& plan, std::size_t level, bool reduce,
                        std::uint32_t step) {
  for_each_line(plan.levels, level, [&](std::uint32_t first) {
    for (std::uint32_t cycle = 0; cycle < plan.cycles; ++cycle)
      add_line(list, plan, level, first, {.step = step, .channel = cycle, .reduce = reduce});
  });
  return step + plan.levels.sizes[level] - 1;
}

// The phase of one level: every line is a set of rings that run concurrently. Its latency is that
// of all steps, each at the slowest hop of the level.
Phase level_phase(const PlacedGroup& placed, const Plan& plan, std::size_t level, Bytes bytes,
                  std::uint32_t passes) {
  LoadSum loads(placed.cluster);
  Phase phase;
  const std::uint32_t stride = plan.levels.stride(level);
  const bool in_cycles = plan.levels.kinds[level] != LevelKind::Fabric;
  for_each_line(plan.levels, level, [&](std::uint32_t first) {
    std::vector<Ring> rings;
    for (std::uint32_t cycle = 0; cycle < (in_cycles ? plan.cycles : 1U); ++cycle) {
      Ring& ring = rings.emplace_back(plan.order(level, first, cycle));
      for (std::uint32_t& digit : ring) digit = plan.levels.group_rank_at[first + digit * stride];
      for (std::size_t i = 0; i < ring.size(); ++i)
        phase.latency =
            std::max(phase.latency, hop_latency(placed, ring[i], ring[(i + 1) % ring.size()]));
    }
    // The levels inside have left each member of this line 1/stride of the buffer.
    for (MultiLinkFlow& flow : ring_flows(placed, rings, bytes.value() / stride, passes, loads))
      phase.flows.push_back(std::move(flow));
  });
  phase.latency = passes * (plan.levels.sizes[level] - 1) * phase.latency;
  return phase;
}

class Hierarchical final : public CollectiveAlgorithm {
 public:
  Hierarchical(CollectiveOp op, LevelsOf which) : op_(op), which_(which) {}
  std::string_view name() const override {
    return which_ == LevelsOf::All ? "multi_level" : "hierarchical";
  }
  CollectiveOp op() const override { return op_; }
  std::string_view summary() const override;
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return plan_of(placed, which_).pieces();
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    return placement_of(placed).uneven(name());
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override;
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override;

 private:
  [[nodiscard]] bool reduces() const { return op_ != CollectiveOp::AllGather; }
  [[nodiscard]] bool gathers() const { return op_ != CollectiveOp::ReduceScatter; }

  CollectiveOp op_;
  LevelsOf which_;
};

std::string_view Hierarchical::summary() const {
  if (which_ == LevelsOf::All) return "rings level by level: node, units of the fabric, the rest";
  if (op_ == CollectiveOp::AllGather) return "rings per rail across the nodes, then in the node";
  if (op_ == CollectiveOp::ReduceScatter)
    return "rings in the node, then per rail across the nodes";
  return "reduce_scatter in the node, all_reduce per rail, all_gather in the node";
}

// An all_reduce gathers immediately after the reduction at the outermost level, so that level is
// one phase of two passes.
std::vector<Phase> Hierarchical::phases(const PlacedGroup& placed, Bytes bytes) const {
  const Plan plan = plan_of(placed, which_);
  const std::size_t outermost = plan.levels.sizes.size() - 1;
  const bool both = reduces() && gathers();
  std::vector<Phase> phases;
  for (std::size_t level = 0; reduces() && level < outermost; ++level)
    phases.push_back(level_phase(placed, plan, level, bytes, 1));
  phases.push_back(level_phase(placed, plan, outermost, bytes, both ? 2 : 1));
  for (std::size_t level = outermost; gathers() && level-- > 0;)
    phases.push_back(level_phase(placed, plan, level, bytes, 1));
  phases.front().latency += placed.cluster.facts().latency.launch;
  return phases;
}

std::vector<Message> Hierarchical::messages(const PlacedGroup& placed, Bytes bytes) const {
  const Plan plan = plan_of(placed, which_);
  MessageList list({.ranks = plan.ranks(),
                    .pieces = plan.pieces(),
                    .piece_bytes = bytes.value() / plan.pieces()});
  std::uint32_t step = 0;
  for (std::size_t level = 0; reduces() && level < plan.levels.sizes.size(); ++level)
    step = add_level(list, plan, level, true, step);
  for (std::size_t level = plan.levels.sizes.size(); gathers() && level-- > 0;)
    step = add_level(list, plan, level, false, step);
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& hierarchical_all_reduce() {
  static const Hierarchical algorithm(CollectiveOp::AllReduce, LevelsOf::NodeAndRest);
  return algorithm;
}

const CollectiveAlgorithm& hierarchical_reduce_scatter() {
  static const Hierarchical algorithm(CollectiveOp::ReduceScatter, LevelsOf::NodeAndRest);
  return algorithm;
}

const CollectiveAlgorithm& hierarchical_all_gather() {
  static const Hierarchical algorithm(CollectiveOp::AllGather, LevelsOf::NodeAndRest);
  return algorithm;
}

const CollectiveAlgorithm& multi_level_all_reduce() {
  static const Hierarchical algorithm(CollectiveOp::AllReduce, LevelsOf::All);
  return algorithm;
}

const CollectiveAlgorithm& multi_level_reduce_scatter() {
  static const Hierarchical algorithm(CollectiveOp::ReduceScatter, LevelsOf::All);
  return algorithm;
}

const CollectiveAlgorithm& multi_level_all_gather() {
  static const Hierarchical algorithm(CollectiveOp::AllGather, LevelsOf::All);
  return algorithm;
}

}  // namespace trainyard
