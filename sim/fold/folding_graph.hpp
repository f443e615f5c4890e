// The graph that folding refines. Ranks, groups, shapes of flows and links are the vertices of one
// labelled graph. The first colour of a vertex holds what distinguishes it before any neighbour is
// looked at.
//
// A membership joins rank and group (labelled by group rank and slot). A group is joined to its
// shapes, and a shape to every link on which its use is contended (labelled by its load there).
// Links without contended uses are distinguished by their colour alone and are no vertices. When a
// group has one shape, the two have the same neighbours and are one vertex, unless reasons have to
// name the flow separately.
//
//    Joined joined = join(cluster, workload, communication);
//    const Contention found = find_contention(cluster, workload, std::move(joined), {});
//    const FoldingGraph folding(cluster, workload, found, Flows::InGroups);
//    refine(folding.graph(found), folding.colours);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/refinement.hpp"
#include "sim/contention/link_limits.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A key of the rate that a flow has alone. It distinguishes flows of one shape and phase.
[[nodiscard]] std::uint64_t alone_key(const ShapedFlow& flow);

// Apart: the only shape of a group is a vertex by itself.
enum class Flows : std::uint8_t { InGroups, Apart };

struct FoldingGraph {
  FoldingGraph(const Cluster& cluster, const Workload& workload, const Contention& found,
               Flows flows);

  // The first vertex of each kind: ranks from 0, then groups, shapes (those with their own
  // vertices), links, in the order of their numbers.
  std::uint32_t groups = 0;
  std::uint32_t shapes = 0;
  std::vector<std::uint32_t> vertex_of_shape;  // its own, or that of its group
  std::uint32_t links = 0;
  // By vertex of a link: its position in JointGraph::links.
  std::vector<std::uint32_t> contended;
  std::uint32_t end = 0;
  std::vector<std::uint32_t> colours;         // indexed by vertex
  std::vector<std::uint32_t> colour_of_link;  // indexed by position in JointGraph::links

  // The graph with its edges. REQUIRES: `found` is the contention that the vertices were made from.
  [[nodiscard]] LabelledGraph graph(const Contention& found) const;

  // Labels of memberships.
  static constexpr std::uint32_t kSlots = 1U << 16U;
  [[nodiscard]] static std::uint32_t label(const Membership& member) {
    return member.group_rank * kSlots + member.slot;
  }

 private:
  std::uint32_t place_shapes(const JointGraph& joint, Flows flows);
};

}  // namespace trainyard
