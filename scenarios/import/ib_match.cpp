#include "scenarios/import/ib_match.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

// NICs and switches, with one edge between two of them. NICs have the first numbers, node by node.
// A weight is the capacity in units of one NIC.
struct FabricGraph {
  struct Edge {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    double weight = 0.0;
  };
  std::uint32_t nics = 0;
  std::uint32_t switches = 0;
  std::vector<Edge> edges = {};
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x2545F4914F6CDD1DULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

// Returns the colours of NICs by number, then those of switches, sorted. A NIC begins with its
// number; each round adds the colours of what is cabled to a device.
std::vector<std::uint64_t> colours_of(const FabricGraph& graph) {
  constexpr int kRounds = 5;  // over cores two NICs are six cables apart
  std::vector<std::uint64_t> colours(graph.nics + graph.switches, 1);
  for (std::uint32_t nic = 0; nic < graph.nics; ++nic) colours[nic] = mixed(nic, 2);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::uint64_t> sums(colours.size(), 0);
    for (const FabricGraph::Edge& edge : graph.edges) {
      const auto weight = static_cast<std::uint64_t>(std::llround(edge.weight * 1000.0));
      // A sum does not depend on the order of the edges.
      sums[edge.a] += mixed(colours[edge.b], weight);
      sums[edge.b] += mixed(colours[edge.a], weight);
    }
    for (std::size_t i = 0; i < colours.size(); ++i) colours[i] = mixed(colours[i], sums[i]);
  }
  std::sort(colours.begin() + graph.nics, colours.end());
  return colours;
}

FabricGraph observed(const IbLayout& layout) {
  FabricGraph graph;
  for (const IbNode& node : layout.nodes)
    graph.nics += static_cast<std::uint32_t>(node.nics.size());
  std::map<std::size_t, std::uint32_t> number;
  for (const auto& [at, level] : layout.tiers.level)
    number.try_emplace(at, graph.nics + graph.switches++);
  std::uint32_t nic = 0;
  for (const IbNode& node : layout.nodes)
    for (const IbNic& one : node.nics) {
      std::map<std::size_t, double> to;
      for (const auto& [at, rate] : one.cables) to[at] += rate / layout.nic_rate;
      for (const auto& [at, weight] : to) graph.edges.push_back({nic, number.at(at), weight});
      ++nic;
    }
  for (const auto& [ends, rate] : layout.between)
    if (number.contains(ends.first) && number.contains(ends.second))
      graph.edges.push_back(
          {number.at(ends.first), number.at(ends.second), rate / layout.nic_rate.value()});
  return graph;
}

// Returns the graph that a fabric of topologies/ draws; nothing where it cannot hold the nodes, or
// has another number of switches than wanted.
std::optional<FabricGraph> drawn(const ClusterSpec& spec, std::uint32_t switches) {
  Draft draft;
  for (std::uint32_t nic = 0; nic < spec.nodes * spec.node.nics; ++nic)
    draft.nics.push_back(
        draft.blueprint.add({.kind = DeviceKind::Nic,
                             .node = static_cast<std::int32_t>(nic / spec.node.nics),
                             .index = static_cast<std::int32_t>(nic % spec.node.nics)}));
  try {
    draw_fabric(spec, draft);
  } catch (const InputError&) {
    return {};
  }
  FabricGraph graph{.nics = static_cast<std::uint32_t>(draft.nics.size())};
  const Wiring wiring = std::move(draft.blueprint).wiring();
  graph.switches = wiring.device_count() - graph.nics;
  if (graph.switches != switches) return {};
  for (const Link& link : wiring.links())
    if (link.from < link.to)
      graph.edges.push_back({link.from, link.to, link.nominal / spec.node.nic_nominal});
  return graph;
}

std::uint32_t whole_ports(double ports) { return static_cast<std::uint32_t>(std::lround(ports)); }

// Returns the oversubscription of a tier, at least 1; 1 for switches without uplinks.
double ratio(double down, double up) { return up > 0.0 ? std::max(down / up, 1.0) : 1.0; }

// The ports of a switch as the file says, and those that are in use; then usual numbers.
std::vector<std::uint32_t> radices(const IbTiers& tiers) {
  std::vector<std::uint32_t> all;
  for (const std::uint32_t radix :
       {tiers.switch_ports, whole_ports(tiers.nics_of_leaf + tiers.uplinks),
        whole_ports(tiers.spine_down + tiers.spine_up), whole_ports(tiers.core_ports), 36U, 40U,
        64U, 128U})
    if (radix >= 2 && std::ranges::find(all, radix) == all.end()) all.push_back(radix);
  return all;
}

// Fabrics of leaves, spines and cores. The counts do not tell rails from a tree, so all are tried.
std::vector<FabricKind> tree_kinds(const IbTiers& tiers) {
  const double leaf = ratio(tiers.nics_of_leaf, tiers.uplinks);
  const double spine = ratio(tiers.spine_down, tiers.spine_up);
  std::vector<FabricKind> kinds;
  if (tiers.level.size() == 1) kinds.emplace_back(SingleSwitch{});
  for (const std::uint32_t radix : radices(tiers)) {
    for (const std::uint32_t unit : {0U, tiers.nodes_of_leaf}) {
      const RailOptimized rails{.radix = radix,
                                .oversubscription = leaf,
                                .core_oversubscription = spine,
                                .nodes_per_unit = unit};
      kinds.emplace_back(rails);
      kinds.emplace_back(DualTor{rails});
    }
    const FatTree tree{.radix = radix, .oversubscription = leaf};
    kinds.emplace_back(tree);
    kinds.emplace_back(
        FatTree3{.radix = radix, .oversubscription = leaf, .core_oversubscription = spine});
    kinds.emplace_back(MultiPlane{tree});
  }
  return kinds;
}

// Fabrics whose leaves are cabled to each other.
std::vector<FabricKind> flat_kinds(const IbTiers& tiers, std::size_t nodes) {
  std::vector<FabricKind> kinds;
  const std::uint32_t peers = whole_ports(tiers.peers);
  if (tiers.leaves.size() == nodes)
    for (std::uint32_t dimensions = 1; dimensions <= 4; ++dimensions)
      for (const std::uint32_t cables : {0U, peers / (2 * dimensions)})
        kinds.emplace_back(Torus{.dims = {}, .dimensions = dimensions, .cables = cables});
  // A router of a group of g has g - 1 cables to the others; its other cables leave the group.
  constexpr std::uint32_t kGroupMost = 64;  // routers
  for (std::uint32_t group = 2; group <= std::min(peers + 1, kGroupMost); ++group)
    if (tiers.leaves.size() % group == 0)
      kinds.emplace_back(
          Dragonfly{.radix = std::max(tiers.switch_ports, tiers.nics_of_leaf + peers),
                    .nics_per_router = tiers.nics_of_leaf,
                    .routers_per_group = group,
                    .global_links = std::max(peers + 1 - group, 1U)});
  return kinds;
}

}  // namespace

std::optional<ClusterSpec> matching_cluster(const IbFabric& fabric, const NodeSpec& node,
                                            IbLayout& layout) {
  if (!layout.one_rate) return {};
  const IbTiers& tiers = layout.tiers;
  const bool flat = tiers.peers > 0.0 && tiers.spines.empty();
  if (flat) order_by_switch(fabric, layout);
  ClusterSpec spec{.node = node, .nodes = static_cast<std::uint32_t>(layout.nodes.size())};
  spec.node.nic = usable_nic_rate(layout.nic_rate, node);
  spec.node.nic_nominal = layout.nic_rate;
  const FabricGraph graph = observed(layout);
  const std::vector<std::uint64_t> colours = colours_of(graph);
  // The first candidate that equals the fabric is returned; several may describe the same cables.
  for (const FabricKind& kind : flat ? flat_kinds(tiers, layout.nodes.size()) : tree_kinds(tiers)) {
    spec.fabric.kind = kind;
    const std::optional<FabricGraph> candidate = drawn(spec, graph.switches);
    if (candidate && candidate->edges.size() == graph.edges.size() &&
        colours_of(*candidate) == colours)
      return spec;
  }
  return {};
}

}  // namespace trainyard
