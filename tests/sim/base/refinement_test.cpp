#include "sim/base/refinement.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trainyard {
namespace {

using Classes = std::vector<std::uint32_t>;

std::vector<LabelledEdge> path(std::uint32_t vertices) {
  std::vector<LabelledEdge> edges;
  for (std::uint32_t i = 0; i + 1 < vertices; ++i) edges.push_back({i, i + 1, 0});
  return edges;
}

// Does a path fold in the middle?
TEST(Refinement, APathFoldsInTheMiddle) {
  const LabelledGraph graph(5, path(5));
  EXPECT_EQ(refine(graph, Classes(5, 0)), (Classes{0, 1, 2, 1, 0}));
}

// Is a circle one class until one vertex is marked?
TEST(Refinement, ACircleIsOneClassUntilOneVertexIsMarked) {
  std::vector<LabelledEdge> edges = path(6);
  edges.push_back({5, 0, 0});
  const LabelledGraph graph(6, edges);
  EXPECT_EQ(refine(graph, Classes(6, 7)), (Classes(6, 0)));
  EXPECT_EQ(refine(graph, Classes{1, 0, 0, 0, 0, 0}), (Classes{0, 1, 2, 3, 2, 1}));
}

// Do labels distinguish edges?
TEST(Refinement, LabelsTellEdgesApart) {
  // A star: two of four leaves are connected by label 1.
  const LabelledGraph graph(5,
                            std::vector<LabelledEdge>{{0, 1, 0}, {0, 2, 1}, {0, 3, 0}, {0, 4, 1}});
  EXPECT_EQ(refine(graph, Classes(5, 0)), (Classes{0, 1, 2, 1, 2}));
}

// Does the number of parallel edges count?
TEST(Refinement, ParallelEdgesCount) {
  const LabelledGraph graph(4, std::vector<LabelledEdge>{{0, 1, 0}, {2, 3, 0}, {2, 3, 0}});
  EXPECT_EQ(refine(graph, Classes(4, 0)), (Classes{0, 0, 1, 1}));
}

// Do isolated vertices keep their colours?
TEST(Refinement, IsolatedVerticesKeepTheirColours) {
  const LabelledGraph graph(4, std::vector<LabelledEdge>{});
  EXPECT_EQ(refine(graph, Classes{3, 1, 3, 2}), (Classes{0, 1, 0, 2}));
}

// Colour refinement in rounds with exact keys.
Classes slow(const LabelledGraph& graph, Classes colours) {
  for (;;) {
    using Key = std::pair<std::uint32_t, std::multiset<std::pair<std::uint32_t, std::uint32_t>>>;
    std::map<Key, std::uint32_t> names;
    Classes next;
    for (std::uint32_t v = 0; v < graph.size(); ++v) {
      Key key{colours[v], {}};
      for (const auto& [to, label] : graph.neighbours(v)) key.second.emplace(label, colours[to]);
      next.push_back(
          names.try_emplace(key, static_cast<std::uint32_t>(names.size())).first->second);
    }
    if (names.size() == std::set<std::uint32_t>(colours.begin(), colours.end()).size()) {
      return numbered_by_lowest(next);
    }
    colours = next;
  }
}

// Does the refinement agree with rounds of exact keys on random graphs?
TEST(Refinement, AgreesWithRoundsOfExactKeysOnRandomGraphs) {
  std::uint64_t state = 1;
  const auto random = [&](std::uint32_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>((state >> 33U) % bound);
  };
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t vertices = 2 + random(40);
    std::vector<LabelledEdge> edges;
    // Copies of one small random graph, some of them joined: symmetric, but not everywhere.
    const std::uint32_t half = vertices / 2;
    for (std::uint32_t e = random(2 * half + 1); e > 0 && half > 0; --e) {
      const LabelledEdge edge{random(half), random(half), random(2)};
      edges.push_back(edge);
      edges.push_back({edge.a + half, edge.b + half, edge.label});
    }
    for (std::uint32_t e = random(3); e > 0; --e)
      edges.push_back({random(vertices), random(vertices), 0});
    const LabelledGraph graph(vertices, edges);
    Classes colours(vertices, 0);
    if (random(2) == 0) colours[random(vertices)] = 1;
    EXPECT_EQ(refine(graph, colours), slow(graph, colours)) << "graph " << i;
  }
}

}  // namespace
}  // namespace trainyard
