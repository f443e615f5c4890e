// The graph that folding refines: ranks, groups, shapes of flows and links as the vertices of one
// labelled graph, each with a colour for what it is known by before any neighbour is looked at.
//
// A membership joins rank and group (labelled by group rank and slot), a group its shapes, and a
// shape every link on which it may meet others (labelled by its load there). Links on which none
// meet are known by their colour alone and are no vertices. The one shape of a group is where the
// group is: the two are one vertex, unless flows are to be spoken of by themselves.
//
//   const Contention found = find_contention(cluster, workload, communication, {});
//   const FoldingGraph folding(cluster, workload, found, Flows::InGroups);
//   refine(folding.graph(found), folding.colours);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/refinement.hpp"
#include "sim/contention/link_limits.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A key that tells flows of one shape and phase apart: the rate they have alone.
[[nodiscard]] std::uint64_t alone_key(const ShapedFlow& flow);

// Whether a group's only shape is a vertex of its own.
enum class Flows : std::uint8_t { InGroups, Apart };

struct FoldingGraph {
  FoldingGraph(const Cluster& cluster, const Workload& workload, const Contention& found,
               Flows flows);

  // First vertex of each kind: ranks from 0, then groups, shapes (with vertices of their own),
  // links, in the order of their numbers.
  std::uint32_t groups = 0;
  std::uint32_t shapes = 0;
  std::vector<std::uint32_t> vertex_of_shape;  // its own, or that of its group
  std::uint32_t links = 0;
  std::vector<std::uint32_t> contended;  // by vertex of a link: its position in JointGraph::links
  std::uint32_t end = 0;
  std::vector<std::uint32_t> colours;         // by vertex
  std::vector<std::uint32_t> colour_of_link;  // by position in JointGraph::links

  // The edges between them, for the contention that the vertices are of.
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
