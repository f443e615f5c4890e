// Two levels: reduce_scatter within each node, all_reduce of every rail across nodes, all_gather
// within.
//
//   T = 2(g-1)(a_i + S/(g B_i)) + 2(N-1)(a_e + S/(g N B_e))
//
// g ranks on each of N nodes, S bytes, a_i and B_i step latency and rate within a node, a_e and B_e
// across. The three stages wait for each other. g = 8, N = 4, S = 2^30, 370.8 GB/s and 4 us, 48.5
// GB/s and 14 us: 9 358.615511 us (tests/models/collectives/hierarchical_test.cpp).
#include <fmt/format.h>

#include "models/collectives/placement.hpp"
#include "models/collectives/ring.hpp"

namespace trainyard {

namespace {

// Rails and cycles: local member l of every node forms rail l; each node's cycles cut the buffer
// further. Piece (l, cycle, node) has the index (l * cycles + cycle) * nodes + node.
struct Levels {
  std::vector<std::vector<Ring>> node_rings;  // [node][cycle], roles in the order of the cycle
  std::vector<Ring> rails;                    // [local member]
  Placement placement;

  std::uint32_t cycles() const { return static_cast<std::uint32_t>(node_rings.front().size()); }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(placement.nodes.size()); }
  std::uint32_t members() const { return static_cast<std::uint32_t>(rails.size()); }
  std::uint32_t pieces() const { return members() * cycles() * nodes(); }
  PieceRange block(std::uint32_t member, std::uint32_t cycle) const {
    const std::uint32_t begin = (member * cycles() + cycle) * nodes();
    return {begin, begin + nodes()};
  }
};

// The members of one node as a group of their own, and back to roles of the whole group.
std::vector<Ring> rings_in_node(const GroupPlace& place, const std::vector<std::uint32_t>& roles) {
  std::vector<std::uint32_t> gpus;
  gpus.reserve(roles.size());
  for (const std::uint32_t role : roles) gpus.push_back(place.gpus[role]);
  std::vector<Ring> rings = rings_of({.cluster = place.cluster, .gpus = gpus});
  for (Ring& ring : rings)
    for (std::uint32_t& member : ring) member = roles[member];
  return rings;
}

Levels levels_of(const GroupPlace& place) {
  Levels levels{.node_rings = {}, .rails = {}, .placement = placement_of(place)};
  levels.rails.resize(levels.placement.smallest());
  for (const std::vector<std::uint32_t>& roles : levels.placement.nodes) {
    levels.node_rings.push_back(rings_in_node(place, roles));
    for (std::size_t member = 0; member < roles.size(); ++member)
      levels.rails[member].push_back(roles[member]);
  }
  return levels;
}

// Position of each role within its node.
std::vector<std::uint32_t> local_members(const GroupPlace& place, const Placement& placement) {
  std::vector<std::uint32_t> member_of(place.gpus.size());
  for (const std::vector<std::uint32_t>& roles : placement.nodes)
    for (std::uint32_t member = 0; member < roles.size(); ++member)
      member_of[roles[member]] = member;
  return member_of;
}

class HierarchicalAllReduce final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "hierarchical"; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "reduce_scatter in the node, all_reduce per rail, all_gather in the node";
  }
  std::uint32_t pieces(const GroupPlace& place) const override { return levels_of(place).pieces(); }
  std::optional<std::string> refusal(const GroupPlace& place) const override;
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override;
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
};

std::optional<std::string> HierarchicalAllReduce::refusal(const GroupPlace& place) const {
  const Placement placement = placement_of(place);
  if (placement.even()) return {};
  return fmt::format("hierarchical needs the same number of ranks on every node, here {} to {}",
                     placement.smallest(), placement.largest());
}

Phase in_node_phase(const GroupPlace& place, const Levels& levels, double bytes, LoadSum& loads) {
  Phase phase;
  phase.latency = (levels.members() - 1) * place.cluster.facts().latency.intra_step;
  for (const std::vector<Ring>& rings : levels.node_rings)
    for (Chain& chain : ring_chains(place, rings, bytes, 1, loads))
      phase.chains.push_back(std::move(chain));
  return phase;
}

Phase across_phase(const GroupPlace& place, const Levels& levels, double bytes, LoadSum& loads) {
  Phase phase;
  phase.latency = 2 * (levels.nodes() - 1) * place.cluster.facts().latency.inter_step;
  phase.chains = ring_chains(place, levels.rails, bytes, 2, loads);
  return phase;
}

std::vector<Phase> HierarchicalAllReduce::phases(const GroupPlace& place, Bytes bytes) const {
  const Levels levels = levels_of(place);
  LoadSum loads(place.cluster);
  std::vector<Phase> phases;
  if (levels.members() > 1) phases.push_back(in_node_phase(place, levels, bytes.value(), loads));
  if (levels.nodes() > 1) phases.push_back(across_phase(place, levels, bytes.value(), loads));
  if (levels.members() > 1) phases.push_back(phases.front());
  phases.front().latency += place.cluster.facts().latency.launch;
  return phases;
}

// Every node's rings, one pass. `add` is add_reduce_scatter or add_all_gather.
template <class Add>
void add_in_nodes(MessageList& list, const Levels& levels,
                  const std::vector<std::uint32_t>& member_of, std::uint32_t first_step, Add add) {
  for (const std::vector<Ring>& rings : levels.node_rings) {
    for (std::uint32_t cycle = 0; cycle < levels.cycles(); ++cycle) {
      RingPass pass{.ring = rings[cycle], .blocks = {}, .first_step = first_step, .channel = cycle};
      for (const std::uint32_t role : pass.ring)
        pass.blocks.push_back(levels.block(member_of[role], cycle));
      add(list, pass);
    }
  }
}

void add_rails(MessageList& list, const Levels& levels, std::uint32_t first_step) {
  for (std::uint32_t member = 0; member < levels.members(); ++member) {
    for (std::uint32_t cycle = 0; cycle < levels.cycles(); ++cycle) {
      RingPass pass{
          .ring = levels.rails[member], .blocks = {}, .first_step = first_step, .channel = cycle};
      const std::uint32_t begin = levels.block(member, cycle).begin;
      for (std::uint32_t node = 0; node < levels.nodes(); ++node)
        pass.blocks.push_back({begin + node, begin + node + 1});
      add_reduce_scatter(list, pass);
      pass.first_step += levels.nodes() - 1;
      add_all_gather(list, pass);
    }
  }
}

std::vector<Message> HierarchicalAllReduce::messages(const GroupPlace& place, Bytes bytes) const {
  const Levels levels = levels_of(place);
  const std::vector<std::uint32_t> member_of = local_members(place, levels.placement);
  MessageList list({.ranks = static_cast<std::uint32_t>(place.gpus.size()),
                    .pieces = levels.pieces(),
                    .piece_bytes = bytes.value() / levels.pieces()});
  const std::uint32_t in_node_steps = levels.members() - 1;
  add_in_nodes(list, levels, member_of, 0, add_reduce_scatter);
  add_rails(list, levels, in_node_steps);
  add_in_nodes(list, levels, member_of, in_node_steps + 2 * (levels.nodes() - 1), add_all_gather);
  return std::move(list).take();
}

}  // namespace

const CollectiveAlgorithm& hierarchical_all_reduce() {
  static const HierarchicalAllReduce algorithm;
  return algorithm;
}

}  // namespace trainyard
