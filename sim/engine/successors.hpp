// The operations that wait for an operation: the edges of one program, reversed.
//
// An operation waits for its dependencies and for the operation before it on its stream. Many rank
// classes share one program. The edges are therefore stored once per program, and each class stores
// only a counter of what an operation still waits for. Operations that wait for nothing and
// operations inside a region need no counter.
//
//    Successors next(program);
//    std::vector<std::uint32_t> left = next.waits_for();
//    for (const Successors::Edge& edge : next.of(7)) --left[edge.counter];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/regions.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class Successors {
 public:
  struct Edge {
    OpIndex operation = 0;
    std::uint32_t counter = 0;
  };

  Successors() = default;
  // Operations inside a region follow from its head. They have no incoming edges here, and no
  // operation has an edge to them.
  explicit Successors(const Program& program, const ProgramRegions& regions = {});

  // REQUIRES: the operation is outside regions, begins one, or is seen from outside.
  [[nodiscard]] std::span<const Edge> of(OpIndex op) const {
    const std::uint32_t number = number_of(op);
    return std::span(edges_).subspan(begin_[number], begin_[number + 1] - begin_[number]);
  }
  // By counter: how many edges lead to its operation.
  [[nodiscard]] const std::vector<std::uint32_t>& waits_for() const { return waits_for_; }
  // Operations to which no edge leads, ascending.
  [[nodiscard]] const std::vector<OpIndex>& heads() const { return heads_; }

 private:
  // An edge with the number of the operation that it leaves.
  struct NumberedEdge {
    std::uint32_t from = 0;
    Edge edge = {};
  };
  struct BlockEdges;

  void number_operations(const ProgramRegions& regions);
  [[nodiscard]] std::uint32_t number_of(OpIndex op) const;
  [[nodiscard]] BlockEdges edges_in(const Block& block, std::uint32_t variant,
                                    const ProgramRegions& regions) const;
  [[nodiscard]] std::vector<NumberedEdge> incoming_edges(const ProgramRegions& regions);
  void sort_edges(std::span<const NumberedEdge> edges);

  OperationList operations_;
  // Numbers of operations by [variant of an instance][index in the block]; kNone. Only operations
  // that have outgoing edges have a number; without regions all have one.
  std::vector<std::vector<std::uint32_t>> numbers_;
  std::vector<std::uint32_t> variant_of_;    // indexed by instance
  std::vector<std::uint32_t> first_number_;  // indexed by instance; the last entry is the end
  std::vector<std::uint32_t> begin_;         // indexed by number; the last entry is the end
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> waits_for_;
  std::vector<OpIndex> heads_;
};

// Counters of what every operation of every rank class still waits for.
//
//    WaitCounters waiting(successors_by_rank_class);
//    // Operation op has ended, and so the operations next are ready.
//    waiting.release(rank_class, op, [&](OpIndex next) { ready.push_back(next); });
class WaitCounters {
 public:
  // REQUIRES: the objects that `of_class` points to outlive this.
  explicit WaitCounters(std::span<const Successors* const> of_class) {
    for (const Successors* successors : of_class)
      classes_.push_back({.successors = successors, .left = successors->waits_for()});
  }

  // `op` has ended. Calls `ready` with every operation that waits for nothing else.
  template <class Ready>
  void release(std::uint32_t rank_class, OpIndex op, const Ready& ready) {
    auto& [successors, left] = classes_[rank_class];
    for (const auto& [next, counter] : successors->of(op))
      if (--left[counter] == 0) ready(next);
  }

 private:
  struct RankClass {
    const Successors* successors = nullptr;
    std::vector<std::uint32_t> left = {};  // edges that are left, indexed by counter
  };
  std::vector<RankClass> classes_;
};

}  // namespace trainyard
