// Colour refinement: computes the coarsest equitable partition of a labelled graph.
//
// A partition is equitable if all vertices of a class have, for every class and every edge label,
// equally many edges with that label into that class. `fold` uses it to find interchangeable ranks.
//
//    const std::vector<LabelledEdge> edges{{0, 3}, {1, 3}, {2, 3}};   // undirected
//    const LabelledGraph graph(4, edges);
//    refine(graph, std::vector<std::uint32_t>{0, 0, 0, 1});   // {0, 0, 0, 1}: vertex 3 is alone
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

// An undirected graph with labels on edges, in CSR format.
class LabelledGraph {
 public:
  struct Neighbour {
    std::uint32_t vertex = 0;
    std::uint32_t label = 0;
  };

  // REQUIRES: both vertices of every edge are below `vertices`.
  LabelledGraph(std::uint32_t vertices, std::span<const LabelledEdge> edges);

  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(offsets_.size() - 1);
  }
  [[nodiscard]] std::span<const Neighbour> neighbours(std::uint32_t vertex) const {
    return std::span(neighbours_)
        .subspan(offsets_[vertex], offsets_[vertex + 1] - offsets_[vertex]);
  }

  // True if a pass over all edges is faster on two threads than on one.
  [[nodiscard]] bool is_large() const;

 private:
  std::vector<std::size_t> offsets_;
  std::vector<Neighbour> neighbours_;
};

// Returns the coarsest equitable partition finer than `colours` (one per vertex), as a class per
// vertex. Classes are numbered by their lowest vertex. Time O(edges * log(vertices)): the largest
// part of a class that splits keeps its name, so a vertex changes its class at most log2(vertices)
// times, and only then its neighbours are visited again. Neighbourhoods are compared by 128-bit
// hashes. REQUIRES: colours.size() == graph.size().
[[nodiscard]] std::vector<std::uint32_t> refine(const LabelledGraph& graph,
                                                std::span<const std::uint32_t> colours);

// A vertex that got a new colour in a round. In round 0 all vertices have their given colours.
struct Recolouring {
  std::uint32_t vertex = 0;
  std::uint32_t round = 0;
  std::uint32_t colour = 0;
};

// The steps of refine(), to explain why two vertices are in different classes. Two vertices are in
// one class after a round if their colours of that round are equal. Vertices that are separated in
// a round differ in their numbers of neighbours by label and colour of the previous round.
struct Refinement {
  std::vector<std::uint32_t> classes;     // as from refine()
  std::vector<std::uint32_t> first;       // colours of round 0, by vertex
  std::vector<Recolouring> recolourings;  // by round
};
[[nodiscard]] Refinement refine_with_history(const LabelledGraph& graph,
                                             std::span<const std::uint32_t> colours);

// Renames classes to 0, 1, ... in the order of their first appearance.
[[nodiscard]] std::vector<std::uint32_t> numbered_by_lowest(std::span<const std::uint32_t> classes);

}  // namespace trainyard
