// Colour refinement: the coarsest equitable partition of a labelled graph.
//
// A partition is equitable when all vertices of a class have, for every class and every edge label,
// equally many edges with that label into that class. `fold` uses it to find interchangeable ranks.
//
//   LabelledGraph graph(4, edges);                       // edges run both ways
//   std::vector<std::uint32_t> classes = refine(graph, {0, 0, 0, 1});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard {

struct LabelledEdge {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t label = 0;
};

// An undirected graph with labels on edges, in compressed rows.
class LabelledGraph {
 public:
  struct Neighbour {
    std::uint32_t vertex = 0;
    std::uint32_t label = 0;
  };

  // REQUIRES: every edge's ends are below `vertices`.
  LabelledGraph(std::uint32_t vertices, std::span<const LabelledEdge> edges);

  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(offsets_.size() - 1);
  }
  [[nodiscard]] std::span<const Neighbour> neighbours(std::uint32_t vertex) const {
    return std::span(neighbours_)
        .subspan(offsets_[vertex], offsets_[vertex + 1] - offsets_[vertex]);
  }

  // Whether two threads go over all of its edges faster than one.
  [[nodiscard]] bool is_large() const;

 private:
  std::vector<std::size_t> offsets_;
  std::vector<Neighbour> neighbours_;
};

// The coarsest equitable partition finer than `colours` (one per vertex), as a class per vertex;
// classes are numbered by their lowest vertex. Time O(edges * log(vertices)): the largest part of a
// class that splits keeps its name, so a vertex changes its class at most log2(vertices) times, and
// only its neighbours are looked at again. Neighbourhoods are compared by 128-bit hashes.
// REQUIRES: colours.size() == graph.size().
[[nodiscard]] std::vector<std::uint32_t> refine(const LabelledGraph& graph,
                                                std::span<const std::uint32_t> colours);

// One vertex that got a new colour in a round. In round 0 all have the colours they were given.
struct Recolouring {
  std::uint32_t vertex = 0;
  std::uint32_t round = 0;
  std::uint32_t colour = 0;
};

// The steps of refine(), for callers who ask why two vertices parted. Two vertices are in one class
// after a round when their colours of that round are equal. Vertices that part in a round differ in
// how many neighbours they have, by label and colour of the round before.
struct Refinement {
  std::vector<std::uint32_t> classes;     // as refine()
  std::vector<std::uint32_t> first;       // colours of round 0, by vertex
  std::vector<Recolouring> recolourings;  // by round
};
[[nodiscard]] Refinement refine_with_history(const LabelledGraph& graph,
                                             std::span<const std::uint32_t> colours);

// Renames classes to 0, 1, ... in the order of their first appearance.
[[nodiscard]] std::vector<std::uint32_t> numbered_by_lowest(std::span<const std::uint32_t> classes);

}  // namespace trainyard
