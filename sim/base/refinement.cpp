#include "sim/base/refinement.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

// A 128-bit sum of hashes of (label, class) over edges. Equal multisets of edges have equal sums in
// any order. Different multisets have equal sums only by a hash collision.
struct Signature {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const Signature&) const = default;
};

Signature signature(std::uint32_t label, std::uint32_t colour) {
  const std::uint64_t both = (std::uint64_t{label} << 32U) | colour;
  return {mixed(both), mixed(both ^ 0xd1b54a32d192ed03ULL)};
}

// The number of edges from which a second thread pays off.
constexpr std::size_t kWorthAThread = 200'000;
// The number of vertices per work item of a thread.
constexpr std::size_t kVerticesTogether = 4096;

// The partition. Vertices are stored class by class in one array (order_), so that a split permutes
// only the range of its class.
//
// The algorithm works in rounds. A round takes the vertices that changed their class in the
// previous round, adds the signatures of their new classes to the sums of their neighbours, and
// splits classes whose members have different sums. If a class splits, its largest part keeps the
// class number and its vertices do not count as changed. That is exact: all vertices of a class
// agree on their edges into the old class, so if they also agree on all parts but one, they agree
// on the last part.
class Classes {
 public:
  Classes(const LabelledGraph& graph, std::span<const std::uint32_t> colours)
      : graph_(graph),
        class_of_(numbered_by_lowest(colours)),
        order_(colours.size()),
        place_(colours.size()),
        sums_(colours.size()),
        touched_mark_(colours.size(), false) {
    for (const std::uint32_t colour : class_of_) {
      if (colour == ranges_.size()) ranges_.emplace_back();
      ++ranges_[colour].end;  // the size, until the loop below
    }
    std::uint32_t begin = 0;
    for (Range& range : ranges_) {
      begin += range.end;
      range = {begin - range.end, begin - range.end};
    }
    for (std::uint32_t vertex = 0; vertex < class_of_.size(); ++vertex) {
      place_[vertex] = ranges_[class_of_[vertex]].end++;
      order_[place_[vertex]] = vertex;
    }
    touched_in_.assign(ranges_.size(), 0);
  }

  // Refines until no class splits. Calls note(vertices, round, class_of) with the vertices that
  // changed their class in each round.
  std::vector<std::uint32_t> settled(const auto& note) {
    note(order_, 0, class_of_);
    std::vector<std::uint32_t> renamed = split_all();
    for (std::uint32_t round = 1; !renamed.empty(); ++round) {
      note(renamed, round, class_of_);
      renamed = split_neighbours(renamed);
    }
    return numbered_by_lowest(class_of_);
  }

 private:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  // Splits every class by the complete neighbourhoods of its vertices. Returns the vertices that
  // got a new class.
  std::vector<std::uint32_t> split_all() {
    parallel_for(graph_.is_large(), (sums_.size() + kVerticesTogether - 1) / kVerticesTogether,
                 [&](std::size_t piece) { sum_all(piece); });
    const auto classes = static_cast<std::uint32_t>(ranges_.size());
    for (std::uint32_t colour = 0; colour < classes; ++colour) {
      touched_in_[colour] = ranges_[colour].end - ranges_[colour].begin;
      split(colour);
    }
    std::ranges::fill(sums_, Signature{});
    return std::exchange(fresh_, {});
  }

  // Sums the signatures of all edges of the vertices of a piece. REQUIRES: their sums are zero.
  void sum_all(std::size_t piece) {
    const std::size_t end = std::min((piece + 1) * kVerticesTogether, sums_.size());
    for (auto vertex = static_cast<std::uint32_t>(piece * kVerticesTogether); vertex < end;
         ++vertex)
      for (const auto& [neighbour, label] : graph_.neighbours(vertex))
        add(vertex, signature(label, class_of_[neighbour]));
  }

  // Splits every class whose vertices differ in their edges to the renamed vertices. Returns the
  // vertices that got a new class. Vertices without such edges are untouched: they have the sum
  // zero and form a separate part. Touched vertices are moved to the end of the range of their
  // class, so that split() finds them there.
  std::vector<std::uint32_t> split_neighbours(const std::vector<std::uint32_t>& renamed) {
    const std::vector<std::uint32_t> touched = summed(renamed);
    std::vector<std::uint32_t> classes;
    for (const std::uint32_t vertex : touched) {
      const std::uint32_t colour = class_of_[vertex];
      if (touched_in_[colour] == 0) classes.push_back(colour);
      move_to(vertex, ranges_[colour].end - 1 - touched_in_[colour]);
      ++touched_in_[colour];
    }
    // Ascending, so that the numbers of new classes do not depend on the order of edges.
    std::ranges::sort(classes);
    for (const std::uint32_t colour : classes) split(colour);
    for (const std::uint32_t vertex : touched) {
      sums_[vertex] = {};
      touched_mark_[vertex] = false;
    }
    return std::exchange(fresh_, {});
  }

  // Adds the signatures of the renamed vertices to the sums of their neighbours. Returns these
  // neighbours.
  std::vector<std::uint32_t> summed(const std::vector<std::uint32_t>& renamed) {
    std::vector<std::uint32_t> touched;
    for (const std::uint32_t vertex : renamed) {
      for (const auto& [neighbour, label] : graph_.neighbours(vertex)) {
        add(neighbour, signature(label, class_of_[vertex]));
        if (touched_mark_[neighbour]) continue;
        touched_mark_[neighbour] = true;
        touched.push_back(neighbour);
      }
    }
    return touched;
  }

  void add(std::uint32_t vertex, const Signature& seen) {
    sums_[vertex].low += seen.low;
    sums_[vertex].high += seen.high;
  }

  // Splits a class. Its touched vertices are at the end of its range. The parts are the sets of
  // touched vertices with equal sums, and the untouched vertices. The largest part keeps the class
  // number.
  //
  // Example: of 8 vertices 3 are touched, two with one sum and one with another. The parts have 5,
  // 2 and 1 vertices. The part of 5 keeps the number, and the other 3 vertices are the changed ones
  // of the next round.
  void split(std::uint32_t colour) {
    const Range whole = ranges_[colour];
    const std::uint32_t middle = whole.end - std::exchange(touched_in_[colour], 0);
    const auto at = [&](std::uint32_t i) { return order_.begin() + i; };
    const Signature& first = sums_[order_[middle]];
    const auto sees_the_same = [&](std::uint32_t vertex) { return sums_[vertex] == first; };
    if (middle == whole.begin && std::all_of(at(middle), at(whole.end), sees_the_same)) return;
    std::vector<Range> parts = sorted_by_sum({middle, whole.end});
    if (middle > whole.begin) parts.insert(parts.begin(), {whole.begin, middle});
    const auto kept = std::ranges::max_element(
        parts, {}, [](const Range& part) { return part.end - part.begin; });
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      if (part != kept) rename(*part);
    }
    ranges_[colour] = *kept;
  }

  // Groups the vertices of a range by sum. Returns the range of each sum. It is a counting sort,
  // because there are few different sums.
  std::vector<Range> sorted_by_sum(const Range& range) {
    std::map<Signature, std::uint32_t> counts;
    auto last = counts.end();
    const auto entry = [&](std::uint32_t vertex) {
      if (last == counts.end() || last->first != sums_[vertex])
        last = counts.try_emplace(sums_[vertex], 0).first;
      return last;
    };
    for (std::uint32_t i = range.begin; i < range.end; ++i) ++entry(order_[i])->second;
    std::vector<Range> parts;
    std::uint32_t begin = range.begin;
    for (auto& [sum, count] : counts) {
      parts.push_back({begin, begin + count});
      begin += std::exchange(count, begin);  // count becomes the next free position
    }
    const std::vector<std::uint32_t> vertices(order_.begin() + range.begin,
                                              order_.begin() + range.end);
    for (const std::uint32_t vertex : vertices) {
      const std::uint32_t target = entry(vertex)->second++;
      order_[target] = vertex;
      place_[vertex] = target;
    }
    return parts;
  }

  void rename(const Range& part) {
    const auto colour = static_cast<std::uint32_t>(ranges_.size());
    ranges_.push_back(part);
    touched_in_.push_back(0);
    for (std::uint32_t i = part.begin; i < part.end; ++i) {
      class_of_[order_[i]] = colour;
      fresh_.push_back(order_[i]);
    }
  }

  // Exchanges a vertex with the one at position `target` of order_.
  void move_to(std::uint32_t vertex, std::uint32_t target) {
    const std::uint32_t other = order_[target];
    std::swap(order_[place_[vertex]], order_[target]);
    std::swap(place_[vertex], place_[other]);
  }

  const LabelledGraph& graph_;
  std::vector<std::uint32_t> class_of_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> place_;
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> touched_in_;
  std::vector<Signature> sums_;
  std::vector<bool> touched_mark_;
  std::vector<std::uint32_t> fresh_;  // vertices that changed their class in this round
};

}  // namespace

// In each row, edges of the first half of the list come before those of the second half, so two
// threads can fill the rows concurrently and the result does not depend on them.
LabelledGraph::LabelledGraph(std::uint32_t vertices, std::span<const LabelledEdge> edges)
    : offsets_(vertices + std::size_t{1}, 0), neighbours_(2 * edges.size()) {
  const auto first = edges.first(edges.size() / 2);
  const auto second = edges.subspan(first.size());
  std::vector<std::uint32_t> of_first(vertices, 0);
  std::vector<std::uint32_t> of_second(vertices, 0);
  const auto count = [&](std::span<const LabelledEdge> some, std::vector<std::uint32_t>& ends) {
    for (const LabelledEdge& edge : some) {
      TY_CHECK(edge.a < vertices && edge.b < vertices, edge.a, edge.b, vertices);
      ++ends[edge.a];
      ++ends[edge.b];
    }
  };
  const bool large = edges.size() >= kWorthAThread;
  run_concurrently(
      large, [&] { count(second, of_second); }, [&] { count(first, of_first); });
  // Before this loop the two lists hold the edges of each vertex in each half of the edges. After
  // it they hold where that half begins in the row of the vertex.
  std::size_t end = 0;
  for (std::uint32_t vertex = 0; vertex < vertices; ++vertex) {
    const std::uint32_t ahead = of_first[vertex];
    of_first[vertex] = 0;
    end += ahead + of_second[vertex];
    of_second[vertex] = ahead;
    offsets_[vertex + std::size_t{1}] = end;
  }
  const auto place = [&](std::span<const LabelledEdge> some, std::vector<std::uint32_t>& taken) {
    for (const LabelledEdge& edge : some) {
      neighbours_[offsets_[edge.a] + taken[edge.a]++] = {edge.b, edge.label};
      neighbours_[offsets_[edge.b] + taken[edge.b]++] = {edge.a, edge.label};
    }
  };
  run_concurrently(
      large, [&] { place(second, of_second); }, [&] { place(first, of_first); });
}

bool LabelledGraph::is_large() const { return neighbours_.size() >= 2 * kWorthAThread; }

std::vector<std::uint32_t> refine(const LabelledGraph& graph,
                                  std::span<const std::uint32_t> colours) {
  TY_CHECK(colours.size() == graph.size(), colours.size(), graph.size());
  return Classes(graph, colours).settled([](const auto&, std::uint32_t, const auto&) {});
}

Refinement refine_with_history(const LabelledGraph& graph, std::span<const std::uint32_t> colours) {
  TY_CHECK(colours.size() == graph.size(), colours.size(), graph.size());
  Refinement result;
  result.classes =
      Classes(graph, colours)
          .settled([&](const auto& vertices, std::uint32_t round, const auto& class_of) {
            if (round == 0) {
              result.first = class_of;
              return;
            }
            for (const std::uint32_t vertex : vertices)
              result.recolourings.push_back({vertex, round, class_of[vertex]});
          });
  return result;
}

std::vector<std::uint32_t> numbered_by_lowest(std::span<const std::uint32_t> classes) {
  constexpr std::uint32_t kUnnamed = std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t highest = classes.empty() ? 0 : std::ranges::max(classes);
  TY_CHECK(highest < kUnnamed, highest);
  std::vector<std::uint32_t> names(highest + std::size_t{1}, kUnnamed);
  std::uint32_t count = 0;
  std::vector<std::uint32_t> result;
  result.reserve(classes.size());
  for (const std::uint32_t colour : classes) {
    if (names[colour] == kUnnamed) names[colour] = count++;
    result.push_back(names[colour]);
  }
  return result;
}

}  // namespace trainyard
